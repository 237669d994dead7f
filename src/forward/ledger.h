/*
 * ledger: what became of the records of a spool; it outlives the process that keeps it.
 *
 * A file of two slots that are written in turn, each with a number and a checksum: of a write that
 * was cut short the other slot is left. One record is settled in one write, which also says which
 * it was, so that its file, if it is still there, is deleted at the next start and not counted
 * again: taken = sent + lost + waiting, whenever the process is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/window.h"

#define LEDGER_ACCOUNTS 16 /* collectors and types of which something was lost; the latest */

enum ledger_lost {
	LEDGER_LOST_OLD,     /* the far side was away for so long that the bound was reached */
	LEDGER_LOST_REFUSED, /* the far side will never take it */
	LEDGER_LOST_DAMAGED, /* the record could not be read */
	LEDGER_LOST_REASONS,
};

extern const char *const ledger_lost_names[LEDGER_LOST_REASONS];

/* Which message of a collector a record holds (profile/window.h). */
struct ledger_id {
	uint8_t instance[16];
	uint64_t sequence;
	uint32_t part, unused;
};

struct ledger_account { /* of one collector and type: what its later messages have to tell */
	uint8_t instance[16];
	char type[WINDOW_TYPE_MAX];
	uint64_t dropped, refused; /* samples */
};

struct ledger_page { /* as it is on disk */
	char magic[8];
	uint64_t generation;
	uint64_t settled;         /* the record that was settled last */
	uint64_t newest;          /* the highest number of a record that was settled */
	struct ledger_id id;      /* of that */
	uint64_t under_way;       /* a record of which a part was sent, */
	uint64_t through;         /* up to this series, */
	uint64_t through_samples; /* with so many samples */
	uint64_t sent, lost[LEDGER_LOST_REASONS]; /* samples */
	uint64_t sent_records, lost_records;
	struct ledger_account accounts[LEDGER_ACCOUNTS]; /* the one added last is the first */
	uint64_t hash;                                   /* of all before it */
};

struct ledger {
	struct ledger_page now;
	int fd;       /* -1: it is kept in memory alone */
	bool unsaved; /* the last write failed */
};

/* In the directory; -1: in memory alone. 0 or -errno. */
int ledger_open(struct ledger *l, int dir);
void ledger_close(struct ledger *l);

/* Writes what was changed in l->now. */
void ledger_save(struct ledger *l);

/* The account, made if need be; then the one that was made first is forgotten. */
struct ledger_account *ledger_account(struct ledger *l, const uint8_t instance[16],
				      const char *type);
