#include "forward/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"

#define SLOT 4096

_Static_assert(sizeof(struct ledger_page) <= SLOT, "a page fits into its slot");

static const char magic[8] = "SMLEDG1";

const char *const ledger_lost_names[LEDGER_LOST_REASONS] = {
	[LEDGER_LOST_OLD] = "far_side_away",
	[LEDGER_LOST_REFUSED] = "refused",
	[LEDGER_LOST_DAMAGED] = "damaged",
};

static uint64_t hash_of(const struct ledger_page *p)
{
	return XXH3_64bits(p, offsetof(struct ledger_page, hash));
}

static void read_slot(struct ledger *l, uint64_t at)
{
	struct ledger_page page;

	if (file_pread(l->fd, &page, sizeof(page), at) != 0 ||
	    memcmp(page.magic, magic, sizeof(magic)) != 0 || page.hash != hash_of(&page))
		return;
	if (page.generation > l->now.generation)
		l->now = page;
}

int ledger_open(struct ledger *l, int dir)
{
	*l = (struct ledger){.fd = -1};
	memcpy(l->now.magic, magic, sizeof(magic));
	if (dir < 0)
		return 0;
	l->fd = openat(dir, "ledger", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (l->fd < 0)
		return -errno;
	/* Its blocks are there before the disk is full. */
	int err = posix_fallocate(l->fd, 0, 2 * SLOT);
	if (err && err != EOPNOTSUPP) {
		ledger_close(l);
		return -err;
	}
	read_slot(l, 0);
	read_slot(l, SLOT);
	return 0;
}

void ledger_close(struct ledger *l)
{
	fd_closep(&l->fd);
	l->fd = -1;
}

void ledger_save(struct ledger *l)
{
	struct ledger_page *p = &l->now;

	p->generation++;
	p->hash = hash_of(p);
	l->unsaved = l->fd >= 0 &&
		     pwrite(l->fd, p, sizeof(*p), p->generation % 2 * SLOT) != (ssize_t)sizeof(*p);
}

struct ledger_account *ledger_account(struct ledger *l, const uint8_t instance[16],
				      const char *type)
{
	struct ledger_account *all = l->now.accounts;

	for (size_t i = 0; i < LEDGER_ACCOUNTS; i++)
		if (memcmp(all[i].instance, instance, sizeof(all[i].instance)) == 0 &&
		    strncmp(all[i].type, type, sizeof(all[i].type)) == 0)
			return &all[i];
	memmove(all + 1, all, (LEDGER_ACCOUNTS - 1) * sizeof(*all));
	all[0] = (struct ledger_account){};
	memcpy(all[0].instance, instance, sizeof(all[0].instance));
	snprintf(all[0].type, sizeof(all[0].type), "%s", type);
	return &all[0];
}
