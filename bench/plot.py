"""plot.png: how much faster each workload is, and throughput over clients."""

import transactions

COLOURS = ("#7f7f7f", "#1f77b4", "#d95f02", "#1b9e77")
BAR_COLOURS = ("#9ecae1", "#6baed6", "#3182bd", "#08519c")


def draw(results, caption, path):
    """Needs matplotlib, which a fresh machine has only after tools/setup."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    throughput = [m for m in results.measurements if m.workload in transactions.ALL]
    single = [m for m in results.measurements if m.workload not in transactions.ALL and m.compared]
    workloads = list(dict.fromkeys(m.workload for m in throughput))
    columns = max(1, len(workloads))
    figure = plt.figure(figsize=(max(10, 3.4 * columns), 8.5), layout="constrained")
    grid = figure.add_gridspec(2, 2 * columns, height_ratios=(1.1, 1))

    split = 2 * columns * 5 // 8 if throughput and single else 2 * columns if throughput else 0
    if throughput:
        ratio_by_clients(figure.add_subplot(grid[0, :split]), throughput, workloads, results)
    if single:
        ratio_of_statements(figure.add_subplot(grid[0, split:]), single, results)
    for i, workload in enumerate(workloads):
        axes = figure.add_subplot(grid[1, 2 * i:2 * i + 2])
        throughput_lines(axes, [m for m in throughput if m.workload == workload])
        axes.set_title(workload)
        axes.legend(fontsize=8)
        if i == 0:
            axes.set_ylabel("transactions per second")
    figure.supxlabel(caption, fontsize=8)
    figure.savefig(path, dpi=110)


def compared(results):
    """The variant whose ratio is drawn, and what it is compared with."""
    names = list(results.variants)
    return names[-1], names[0]


def bar(axes, x, measurement, name, width, colour):
    """One ratio bar with its extremes as a whisker and its value at its foot, where no
    whisker crosses it."""
    ratio, ends = measurement.ratio(name), measurement.ratio_range(name)
    text = "n/a" if ratio is None else f"{ratio:.2f}"
    dark = ratio is not None and colour in BAR_COLOURS[2:]
    axes.annotate(text, (x, 0), (0, 4), textcoords="offset points", ha="center", fontsize=8,
                  color="white" if dark else "black")
    if ratio is None:
        return
    low, high = ends or (ratio, ratio)          # none where a single value is 0
    axes.bar(x, ratio, width, color=colour,
             yerr=[[max(0, ratio - low)], [max(0, high - ratio)]],
             error_kw={"elinewidth": 0.8, "ecolor": "#444444"})


def finish_ratio_axes(axes, labels, results, title):
    name, base = compared(results)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylabel(f"{name} vs {base} (above 1: {name} is better)")
    axes.set_title(title)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.1)         # room for the legend


def ratio_by_clients(axes, measurements, workloads, results):
    name, _ = compared(results)
    clients = sorted({m.clients for m in measurements})
    width = 0.8 / len(clients)
    for m in measurements:
        i = clients.index(m.clients)
        x = workloads.index(m.workload) + (i - (len(clients) - 1) / 2) * width
        bar(axes, x, m, name, width * 0.95, BAR_COLOURS[i % len(BAR_COLOURS)])
    handles = [axes.bar(0, 0, color=BAR_COLOURS[i % len(BAR_COLOURS)])
               for i in range(len(clients))]
    axes.legend(handles, [f"{c} client{'s' if c > 1 else ''}" for c in clients],
                fontsize=8, ncols=len(clients), loc="upper right")
    finish_ratio_axes(axes, workloads, results, "throughput ratio")


def ratio_of_statements(axes, measurements, results):
    name, _ = compared(results)
    for x, m in enumerate(measurements):
        bar(axes, x, m, name, 0.6, BAR_COLOURS[1])
    finish_ratio_axes(axes, [m.workload for m in measurements], results,
                      "the rest: time, size or rate ratio")
    axes.tick_params("x", labelrotation=90)


def throughput_lines(axes, measurements):
    """Median over clients per variant, and of the ceiling, with min..max as error bars."""
    for name, colour in zip(measurements[0].values, COLOURS):
        drawn = [m for m in measurements if m.values.get(name)]
        middle = [m.median(name) for m in drawn]
        low = [mid - min(m.values[name]) for mid, m in zip(middle, drawn)]
        high = [max(m.values[name]) - mid for mid, m in zip(middle, drawn)]
        axes.errorbar([m.clients for m in drawn], middle, yerr=[low, high], label=name,
                      color=colour, marker="o", markersize=4, capsize=3)
    axes.set_xscale("log", base=2)
    clients = [m.clients for m in measurements]
    axes.set_xticks(clients, clients)
    axes.minorticks_off()
    axes.set_xlabel("clients")
    axes.set_ylim(bottom=0)
