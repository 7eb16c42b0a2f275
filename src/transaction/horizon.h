/*-------------------------------------------------------------------------
 *
 * horizon.h
 *	  Set-up of the horizon sampler; storage/horizon.h has the interface.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_TXN_HORIZON_H
#define TS_TXN_HORIZON_H

#include "storage/horizon.h"

extern void ts_horizon_request(void);
extern void ts_horizon_startup(void);

#endif							/* TS_TXN_HORIZON_H */
