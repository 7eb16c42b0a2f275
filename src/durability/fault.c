/*-------------------------------------------------------------------------
 *
 * fault.c
 *	  Faults on demand in file operations, in test builds: see fault.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "durability/fault.h"

#ifdef TSENGINE_TEST
#define MAX_FAULTS	8

typedef struct Fault
{
	TsFaultOperation operation;
	uint64		first;			/* 1: the next operation */
	bool		later_too;
	int			result;			/* errno or TS_FAULT_SHORT */
} Fault;

typedef struct FaultList
{
	int			count;
	Fault		faults[MAX_FAULTS];
} FaultList;

static const char *const operation_names[] = {
	"open", "read", "write", "truncate", "fsync", "rename", "unlink"
};

static const struct
{
	const char *name;
	int			result;
}			results[] = {
	{"short", TS_FAULT_SHORT}, {"EIO", EIO}, {"ENOSPC", ENOSPC},
	{"EACCES", EACCES}, {"EINTR", EINTR}, {"EINVAL", EINVAL}
};

static char *fault_setting;
static FaultList *active = NULL;
static uint64 counters[TS_NUM_FAULT_OPERATIONS];

static bool
parse_fault(char *text, Fault *fault)
{
	char	   *number = strchr(text, ':');
	char	   *result = number != NULL ? strchr(number + 1, ':') : NULL;
	char	   *end;
	int			i;

	if (result == NULL)
		return false;
	*number++ = *result++ = '\0';

	for (i = 0; i < lengthof(operation_names); i++)
		if (strcmp(text, operation_names[i]) == 0)
			break;
	if (i == lengthof(operation_names))
		return false;
	fault->operation = (TsFaultOperation) i;

	fault->first = strtou64(number, &end, 10);
	fault->later_too = *end == '+';
	if (end == number || fault->first == 0 || end[fault->later_too] != '\0')
		return false;

	for (i = 0; i < lengthof(results); i++)
		if (strcmp(result, results[i].name) == 0)
			break;
	if (i == lengthof(results))
		return false;
	fault->result = results[i].result;
	return true;
}

static bool
check_setting(char **newval, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*newval);
	char	   *rest = copy;
	char	   *item;
	FaultList  *list = calloc(1, sizeof(FaultList));

	if (list == NULL)
		return false;
	while ((item = strsep(&rest, ",")) != NULL)
	{
		if (*item == '\0')
			continue;
		if (list->count == MAX_FAULTS || !parse_fault(item, &list->faults[list->count++]))
		{
			GUC_check_errdetail("Expected up to %d of operation:number[+]:error.", MAX_FAULTS);
			free(list);
			return false;
		}
	}
	pfree(copy);
	*extra = list;
	return true;
}

static void
assign_setting(const char *newval, void *extra)
{
	active = extra;
	memset(counters, 0, sizeof(counters));
}

static int	slow_manifest = 0;
static int	slow_load = 0;

void
ts_fault_define_setting(void)
{
	DefineCustomStringVariable("tsengine.fault",
							   "Faults in operations on files (test builds only).",
							   NULL,
							   &fault_setting,
							   "",
							   PGC_SUSET, GUC_NOT_IN_SAMPLE,
							   check_setting, assign_setting, NULL);
	DefineCustomIntVariable("tsengine.slow_manifest",
							"Time to stand still with each table half made when the manifest is read (test builds only).",
							NULL,
							&slow_manifest,
							0, 0, 10000,
							PGC_POSTMASTER, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
	DefineCustomIntVariable("tsengine.slow_load",
							"Time to stand still with blocks claimed before their file is opened (test builds only).",
							NULL,
							&slow_load,
							0, 0, 10000,
							PGC_POSTMASTER, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
}

/* Stand still where a table of the manifest is half made. */
void
ts_fault_slow_manifest(void)
{
	if (slow_manifest > 0)
		pg_usleep(slow_manifest * 1000L);
}

/* Stand still where blocks are claimed and their file is not open yet. */
void
ts_fault_slow_load(void)
{
	if (slow_load > 0)
		pg_usleep(slow_load * 1000L);
}

/* Count an operation: 0, or the errno it is to fail with, or TS_FAULT_SHORT. */
int
ts_fault(TsFaultOperation operation)
{
	uint64		number = ++counters[operation];

	for (int i = 0; active != NULL && i < active->count; i++)
	{
		Fault	   *fault = &active->faults[i];

		if (fault->operation == operation &&
			(number == fault->first || (fault->later_too && number > fault->first)))
			return fault->result;
	}
	return 0;
}
#endif
