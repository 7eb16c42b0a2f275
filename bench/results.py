"""What was measured: kept, compared, printed as a table, written as CSV and JSON."""

import csv
import json
import statistics

# Whether more is better; what has another unit explains the rest and is not compared.
MORE_IS_BETTER = {"tps": True, "rows/s": True, "fraction": True, "s": False,
                  "bytes/row": False}
CSV_COLUMNS = ("workload", "clients", "unit", "variant", "access_method", "median", "min",
               "max", "rounds", "ratio", "values", "wal_per_transaction",
               "wal_per_transaction_cycle")


class Measurement:
    """One row of the table: a workload at a client count, a list of values per variant."""

    def __init__(self, workload, clients, unit, variants):
        self.workload = workload
        self.clients = clients
        self.unit = unit
        self.variants = variants
        self.values = {name: [] for name in variants}
        self.ceiling_name = None
        # Bytes per transaction: of each run between checkpoints, and over a cycle.
        self.wal = {name: [] for name in variants}
        self.cycle_wal = {}

    def add_ceiling(self, name):
        """A further list of values, of the first variant under better circumstances."""
        self.ceiling_name = name
        self.values[name] = []
        self.wal[name] = []

    def access_method(self, name):
        return self.variants[next(iter(self.values)) if name == self.ceiling_name else name]

    def median_wal(self, name):
        return statistics.median(self.wal[name]) if self.wal[name] else None

    def median(self, name):
        values = self.values[name]
        return statistics.median(values) if values else None

    @property
    def compared(self):
        return self.unit in MORE_IS_BETTER

    def better(self, base, other):
        """How much better a variant's figure OTHER is than the first variant's, BASE."""
        return other / base if MORE_IS_BETTER[self.unit] else base / other

    def ratio(self, name):
        """NAME against the first variant; above 1 always means that NAME is better."""
        base, other = self.median(next(iter(self.values))), self.median(name)
        return self.better(base, other) if self.compared and base and other else None

    def ratio_range(self, name):
        """The ratio at the least and most favourable pair of single runs."""
        base, other = self.values[next(iter(self.values))], self.values[name]
        if not (base and other and min(base) > 0 and min(other) > 0):
            return None
        ends = [self.better(b, o) for b in (min(base), max(base))
                for o in (min(other), max(other))]
        return min(ends), max(ends)


class Results:
    """All measurements of one run of the program, and everything that went wrong."""

    def __init__(self, variants):
        self.variants = variants          # name -> access method, in the order given
        self.measurements = []
        self.problems = []                # dicts: kind ("wrong data" or "failed"), where, text

    def new(self, workload, clients, unit):
        measurement = Measurement(workload, clients, unit, self.variants)
        self.measurements.append(measurement)
        return measurement

    def problem(self, kind, where, text):
        self.problems.append({"kind": kind, "where": where, "text": str(text)})

    def has(self, kind):
        return any(p["kind"] == kind for p in self.problems)

    # The table.

    def table(self):
        """The table as text; columns: workload, clients, each variant, each ratio, and
        those of transactions where some were measured: ceiling and WAL."""
        names = list(self.variants)
        # With more than two variants a lone "ratio" would not say of what.
        ratios = ["ratio"] if len(names) == 2 else [f"{n}/{names[0]}" for n in names[1:]]
        rows = [["workload", "clients", "unit", *names, *ratios]]
        with_ceiling = [m.ceiling_name for m in self.measurements if m.ceiling_name]
        with_wal = any(any(m.wal.values()) for m in self.measurements)
        if with_ceiling:
            rows[0] += [with_ceiling[0], "ceiling"]
        if with_wal:
            rows[0] += [f"{n} wal/tx" for n in names]
        for m in self.measurements:
            row = [m.workload, str(m.clients), m.unit,
                   *(spread_text(m.values[n]) for n in names),
                   *(ratio_text(m.ratio(n)) if m.compared else "" for n in names[1:])]
            if with_ceiling:
                row += ceiling_texts(m)
            if with_wal:
                row += [wal_text(m, n) for n in names]
            rows.append(row)
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [" | ".join(cell.ljust(w) if i in (0, 2) else cell.rjust(w)
                            for i, (cell, w) in enumerate(zip(row, widths))) for row in rows]
        lines.insert(1, "-+-".join("-" * w for w in widths))
        return "\n".join(lines)

    # The files.

    def write_csv(self, path):
        with open(path, "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(CSV_COLUMNS)
            for m in self.measurements:
                for name, values in m.values.items():
                    writer.writerow([
                        m.workload, m.clients, m.unit, name, m.access_method(name),
                        *([rounded(f(values)) for f in (statistics.median, min, max)]
                          if values else ["", "", ""]),
                        len(values), rounded(m.ratio(name)),
                        " ".join(str(rounded(v)) for v in values),
                        rounded(m.median_wal(name)), rounded(m.cycle_wal.get(name))])

    def write_json(self, path, about):
        content = {
            **about,
            "access_methods": self.variants,
            "measurements": [{
                "workload": m.workload, "clients": m.clients, "unit": m.unit,
                "values": m.values,
                "median": {n: m.median(n) for n in m.values},
                "ratio": {n: m.ratio(n) for n in m.values},
                "wal_per_transaction": m.wal,
                "wal_per_transaction_cycle": m.cycle_wal,
            } for m in self.measurements],
            "problems": self.problems,
        }
        with open(path, "w") as out:
            json.dump(content, out, indent=1)
            out.write("\n")


def rounded(value):
    return "" if value is None else round(value, 4)


def number(value):
    """Enough digits to compare, from count(*) in milliseconds to a million per second."""
    digits = 0 if value >= 1000 else 1 if value >= 10 else 3 if value >= 1 else 4
    return f"{value:.{digits}f}"


def spread_text(values):
    """"median (min..max)", or "n/a" for what could not be measured."""
    if not values:
        return "n/a"
    middle = number(statistics.median(values))
    return f"{middle} ({number(min(values))}..{number(max(values))})" if len(values) > 1 else middle


def ratio_text(value):
    return "n/a" if value is None else f"{value:.2f}"


def ceiling_texts(measurement):
    """Two cells: the ceiling's values, and its ratio."""
    name = measurement.ceiling_name
    if name is None:
        return ["", ""]
    return [spread_text(measurement.values[name]), ratio_text(measurement.ratio(name))]


def wal_text(measurement, name):
    """"between checkpoints / over a cycle", or only the first, in bytes."""
    found = [measurement.median_wal(name), measurement.cycle_wal.get(name)]
    return " / ".join(f"{value:.0f}" for value in found if value is not None)
