/*-------------------------------------------------------------------------
 *
 * image.c
 *	  What processes share about the checkpoint image.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "durability/image.h"

TsImageShared *ts_image_shared;

void
ts_image_request(void)
{
	RequestAddinShmemSpace(sizeof(TsImageShared));
	RequestNamedLWLockTranche("TsengineImage", TS_NUM_IMAGE_LOCKS);
}

LWLock *
ts_image_lock(TsImageLock lock)
{
	return &GetNamedLWLockTranche("TsengineImage")[lock].lock;
}

void
ts_image_startup(void)
{
	bool		found;

	ts_image_shared = ShmemInitStruct("tsengine image", sizeof(TsImageShared), &found);
	if (!found)
	{
		bool		crc_ok;
		ControlFileData *control = get_controlfile(DataDir, &crc_ok);

		memset(ts_image_shared, 0, sizeof(TsImageShared));
		ts_image_shared->control_redo = control->checkPointCopy.redo;
		ts_image_shared->start_time = GetCurrentTimestamp();
		ConditionVariableInit(&ts_image_shared->load_done);
		pfree(control);
	}
}
