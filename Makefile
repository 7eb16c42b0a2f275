# tsengine - in-memory MVCC row store for PostgreSQL (PGXS build)
#
#   make                       release build
#   make TSENGINE_TEST=1       test build: named stop points and extra checks
#   make CC=clang              build with clang
#   make COPT=-Werror          any further compiler option
#   make install               install into the server that PG_CONFIG names
#   make check                 every test, without installing packages
#   make check-core            PostgreSQL's own regression and isolation suites

# PGXS has a `check` too, which only says that it is not supported. A second
# recipe would be a warning, so PGXS is left out when `check` is asked for and
# the goals beside it get a make of their own.
ifneq (,$(filter check,$(MAKECMDGOALS)))

OTHER_GOALS := $(filter-out check,$(MAKECMDGOALS))

.PHONY: check $(OTHER_GOALS)
.NOTPARALLEL:
check: $(OTHER_GOALS)
	tools/test --no-setup
$(OTHER_GOALS):
	$(MAKE) $@

else

EXTENSION = tsengine
DATA = $(wildcard tsengine--*.sql)
MODULE_big = tsengine
PGFILEDESC = "tsengine - in-memory MVCC row store"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

PG_CPPFLAGS = -I$(srcdir)/src
ifdef TSENGINE_TEST
PG_CPPFLAGS += -DTSENGINE_TEST
endif

# Callbacks do not use every argument, node and routine structs are filled by
# name, and PostgreSQL's own macros mix signedness.
# Only what the server looks up by name is exported (TS_EXPORTED in compat.h):
# calls between our files then need no detour.
PG_CFLAGS = -std=gnu11 -fvisibility=hidden -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -MMD -MP

EXTRA_CLEAN = $(OBJS:.o=.d) .build-flags

# io_uring for the files of the checkpoint image
SHLIB_LINK += -luring

# Debian's server is configured with LLVM. Bitcode would need clang in the very
# version the server was built with and would gain nothing here.
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Server headers are not ours to fix: -isystem keeps their warnings out.
override CPPFLAGS := $(patsubst -I/%,-isystem /%,$(CPPFLAGS))

# The server's CFLAGS are gcc's.
ifneq (,$(findstring clang,$(CC)))
override CFLAGS := $(filter-out -fexcess-precision=% -Wimplicit-fallthrough=% \
	-Wno-format-truncation -Wno-stringop-truncation,$(CFLAGS))
endif

# Objects are rebuilt when compiler or flags change (test and release builds
# share the tree).
BUILD_FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS)
$(shell echo '$(BUILD_FLAGS)' | cmp -s - .build-flags || \
	echo '$(BUILD_FLAGS)' > .build-flags)
$(OBJS): .build-flags

-include $(wildcard $(OBJS:.o=.d))

.PHONY: check-core
check-core:
	tools/check-core

endif
