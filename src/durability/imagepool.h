/*-------------------------------------------------------------------------
 *
 * imagepool.h
 *	  Where the space of new image files comes from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TS_IMAGEPOOL_H
#define TS_IMAGEPOOL_H

#include "postgres.h"

extern int	ts_image_create_file(const char *path);
extern bool ts_image_free_space(void);

#endif							/* TS_IMAGEPOOL_H */
