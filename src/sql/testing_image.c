/*-------------------------------------------------------------------------
 *
 * testing_image.c
 *	  Functions of test builds that drive the files of the checkpoint image.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"

#include "compat.h"
#include "durability/imagefile.h"
#include "durability/imagepage.h"

#ifdef TSENGINE_TEST
TS_FUNCTION_INFO_V1(tsengine_image_method);
TS_FUNCTION_INFO_V1(tsengine_image_write);
TS_FUNCTION_INFO_V1(tsengine_image_read);
TS_FUNCTION_INFO_V1(tsengine_image_verify);
TS_FUNCTION_INFO_V1(tsengine_image_remove);
TS_FUNCTION_INFO_V1(tsengine_image_reserve);
TS_FUNCTION_INFO_V1(tsengine_image_speed);
TS_FUNCTION_INFO_V1(tsengine_durable_write);

#define MAX_PIECE	(4 * 1024 * 1024)

/* Piece "number" of the stream that a seed stands for; returns its length. */
static Size
make_piece(char *buffer, int seed, int number)
{
	pg_prng_state state;
	Size		len;

	pg_prng_seed(&state, ((uint64) seed << 32) + number);
	switch (pg_prng_uint64_range(&state, 0, 15))
	{
		case 0:
			len = pg_prng_uint64_range(&state, 1, MAX_PIECE);
			break;
		case 1:
			len = TS_IMAGE_PAYLOAD;
			break;
		case 2:
		case 3:
			len = pg_prng_uint64_range(&state, 1, 200 * 1024);
			break;
		default:
			len = pg_prng_uint64_range(&state, 1, 2000);
			break;
	}
	for (Size i = 0; i < len; i += sizeof(uint64))
	{
		uint64		word = pg_prng_uint64(&state);

		memcpy(buffer + i, &word, Min(sizeof(word), len - i));
	}
	return len;
}

static TsImagePlace
place_at(uint32 file, uint64 position)
{
	TsImagePlace place = {
		file, position / TS_IMAGE_PAYLOAD, position % TS_IMAGE_PAYLOAD
	};

	return place;
}

/* () text */
Datum
tsengine_image_method(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(ts_image_io_method()));
}

/* (file int, pieces int, seed int): write a stream, return the file's bytes */
Datum
tsengine_image_write(PG_FUNCTION_ARGS)
{
	uint32		file = PG_GETARG_INT32(0);
	int			pieces = PG_GETARG_INT32(1);
	int			seed = PG_GETARG_INT32(2);
	char	   *buffer = palloc(MAX_PIECE);
	TsImageWriter *w = ts_image_writer_open(file, GetSystemIdentifier());
	uint64		position = 0;
	uint64		bytes = 0;

	PG_TRY();
	{
		for (int i = 0; i < pieces; i++)
		{
			Size		len = make_piece(buffer, seed, i);
			TsImagePlace place = ts_image_writer_place(w);
			TsImagePlace expected = place_at(file, position);

			if (memcmp(&place, &expected, sizeof(place)) != 0)
				elog(ERROR, "piece %d begins at page %u offset %u", i, place.page, place.offset);
			ts_image_writer_append(w, buffer, len);
			position += len;
		}
		bytes = ts_image_writer_finish(w);
	}
	PG_CATCH();
	{
		ts_image_writer_abort(w);
		PG_RE_THROW();
	}
	PG_END_TRY();
	PG_RETURN_INT64(bytes);
}

/* Read one piece in two parts and compare. */
static void
read_piece(TsImageReader *r, char *buffer, const char *expected, Size len, int number)
{
	Size		part = len / 3;

	memset(buffer, 0, len);
	ts_image_reader_read(r, buffer, part);
	ts_image_reader_read(r, buffer + part, len - part);
	if (memcmp(buffer, expected, len) != 0)
		elog(ERROR, "piece %d differs", number);
}

static int
read_pieces(TsImageReader *r, uint32 file, int pieces, int seed, int step, bool alone)
{
	char	   *expected = palloc(MAX_PIECE);
	char	   *buffer = palloc(MAX_PIECE);
	uint64	   *begin = palloc0(sizeof(uint64) * (pieces + 1));
	int			done = 0;

	for (int i = 0; i < pieces; i++)
		begin[i + 1] = begin[i] + make_piece(expected, seed, i);
	if (!alone)
		ts_image_reader_start(r, place_at(file, 0), place_at(file, begin[pieces] - 1).page);
	for (int i = 0; i < pieces; i += step)
	{
		/* alone: each by a range of its own, from last to first */
		int			number = alone ? pieces - 1 - i : i;
		Size		len = make_piece(expected, seed, number);

		if (alone)
			ts_image_reader_start(r, place_at(file, begin[number]),
								  place_at(file, begin[number + 1] - 1).page);
		else if (step > 1)
			ts_image_reader_skip_to(r, place_at(file, begin[number]));
		read_piece(r, buffer, expected, len, number);
		done++;
	}
	return done;
}

/*
 * (file int, pieces int, seed int, step int, alone bool): read every step-th
 * piece, in one range or each alone; return how many were compared
 */
Datum
tsengine_image_read(PG_FUNCTION_ARGS)
{
	uint32		file = PG_GETARG_INT32(0);
	TsImageReader *r = ts_image_reader_open(file, GetSystemIdentifier());
	int			done = 0;

	PG_TRY();
	{
		done = read_pieces(r, file, PG_GETARG_INT32(1), PG_GETARG_INT32(2),
						   PG_GETARG_INT32(3), PG_GETARG_BOOL(4));
	}
	PG_FINALLY();
	{
		ts_image_reader_close(r);
	}
	PG_END_TRY();
	PG_RETURN_INT32(done);
}

/* (file int, pages int, foreign bool) text: foreign expects another system's */
Datum
tsengine_image_verify(PG_FUNCTION_ARGS)
{
	char	   *problem = ts_image_verify_file(PG_GETARG_INT32(0),
											   GetSystemIdentifier() + PG_GETARG_BOOL(2),
											   PG_GETARG_INT32(1));

	if (problem == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(problem));
}

/* (file int, recycle_limit bigint) */
Datum
tsengine_image_remove(PG_FUNCTION_ARGS)
{
	ts_image_file_remove(PG_GETARG_INT32(0), PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

/* (bytes bigint) */
Datum
tsengine_image_reserve(PG_FUNCTION_ARGS)
{
	ts_image_reserve(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}

/* (path text, contents text) */
Datum
tsengine_durable_write(PG_FUNCTION_ARGS)
{
	text	   *contents = PG_GETARG_TEXT_PP(1);

	ts_durable_write(text_to_cstring(PG_GETARG_TEXT_PP(0)),
					 VARDATA_ANY(contents), VARSIZE_ANY_EXHDR(contents));
	PG_RETURN_VOID();
}

static void
write_stream(uint32 file, const char *buffer, int megabytes)
{
	TsImageWriter *w = ts_image_writer_open(file, GetSystemIdentifier());

	PG_TRY();
	{
		for (int i = 0; i < megabytes; i++)
			ts_image_writer_append(w, buffer, 1024 * 1024);
		(void) ts_image_writer_finish(w);
	}
	PG_CATCH();
	{
		ts_image_writer_abort(w);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
read_stream(uint32 file, char *buffer, int megabytes)
{
	uint64		bytes = (uint64) megabytes * 1024 * 1024;
	TsImageReader *r = ts_image_reader_open(file, GetSystemIdentifier());

	PG_TRY();
	{
		ts_image_reader_start(r, place_at(file, 0), place_at(file, bytes - 1).page);
		for (int i = 0; i < megabytes; i++)
			ts_image_reader_read(r, buffer, 1024 * 1024);
	}
	PG_FINALLY();
	{
		ts_image_reader_close(r);
	}
	PG_END_TRY();
}

/* (file int, megabytes int, reading bool) float8: megabytes per second */
Datum
tsengine_image_speed(PG_FUNCTION_ARGS)
{
	int			megabytes = PG_GETARG_INT32(1);
	char	   *buffer = palloc(1024 * 1024);
	instr_time	begin;
	instr_time	elapsed;

	memset(buffer, 'x', 1024 * 1024);
	INSTR_TIME_SET_CURRENT(begin);
	if (PG_GETARG_BOOL(2))
		read_stream(PG_GETARG_INT32(0), buffer, megabytes);
	else
		write_stream(PG_GETARG_INT32(0), buffer, megabytes);
	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, begin);
	PG_RETURN_FLOAT8(megabytes / INSTR_TIME_GET_DOUBLE(elapsed));
}
#endif
