#include "serve/access.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>

#include "base/mem.h"

#define CACHE_MAX  64 /* users whose groups were looked up */
#define CACHE_MS   60000
#define GROUPS_MAX 1024 /* of a user */

struct membership { /* whether a user is in an allowed group */
	uid_t uid;
	bool is_member;
	uint64_t until_ms; /* 0: the slot is free */
};

struct access {
	struct access_options o; /* with arrays of our own */
	struct membership cache[CACHE_MAX];
};

struct access *access_new(const struct access_options *o)
{
	struct access *a = mem_alloc(sizeof(*a));

	a->o = *o;
	a->o.users = mem_dup(o->users, o->user_count * sizeof(*o->users));
	a->o.groups = mem_dup(o->groups, o->group_count * sizeof(*o->groups));
	return a;
}

void access_free(struct access *a)
{
	if (!a)
		return;
	free((uid_t *)a->o.users);
	free((gid_t *)a->o.groups);
	free(a);
}

static bool look_up_groups(const struct access *a, uid_t uid)
{
	const struct passwd *p = getpwuid(uid);
	int count = GROUPS_MAX;

	if (!p)
		return false;
	CLEANUP(freep) gid_t *groups = mem_alloc_array(GROUPS_MAX, sizeof(*groups));
	if (getgrouplist(p->pw_name, p->pw_gid, groups, &count) < 0)
		count = GROUPS_MAX; /* of more the first are there */
	for (int i = 0; i < count; i++)
		for (size_t g = 0; g < a->o.group_count; g++)
			if (groups[i] == a->o.groups[g])
				return true;
	return false;
}

static bool is_member(struct access *a, uid_t uid, uint64_t now_ms)
{
	struct membership *slot = &a->cache[0];

	if (!a->o.group_count)
		return false;
	for (size_t i = 0; i < CACHE_MAX; i++) {
		struct membership *k = &a->cache[i];
		if (k->until_ms > now_ms && k->uid == uid)
			return k->is_member;
		if (k->until_ms < slot->until_ms)
			slot = k;
	}
	*slot = (struct membership){uid, look_up_groups(a, uid), now_ms + CACHE_MS};
	return slot->is_member;
}

bool access_may_look(struct access *a, uid_t uid, uint64_t now_ms)
{
	if (uid == 0 || uid == a->o.starter)
		return true;
	for (size_t i = 0; i < a->o.user_count; i++)
		if (a->o.users[i] == uid)
			return true;
	return is_member(a, uid, now_ms);
}

bool access_may_send(const struct access *a, uid_t uid)
{
	return uid == 0 || (a->o.starter_sends && uid == a->o.starter);
}

static void put_user(FILE *out, uid_t uid)
{
	const struct passwd *p = getpwuid(uid);

	if (p)
		fputs(p->pw_name, out);
	else
		fprintf(out, "user %u", uid);
}

char *access_describe(const struct access_options *o)
{
	char *text = NULL;
	size_t len, left = 1 + (o->starter != 0) + o->user_count + o->group_count;
	FILE *out = open_memstream(&text, &len);

	fputs("root", out);
	left--;
	if (o->starter) {
		fputs(--left ? ", " : " and ", out);
		put_user(out, o->starter);
	}
	for (size_t i = 0; i < o->user_count; i++) {
		fputs(--left ? ", " : " and ", out);
		put_user(out, o->users[i]);
	}
	for (size_t i = 0; i < o->group_count; i++) {
		const struct group *g = getgrgid(o->groups[i]);
		fputs(--left ? ", " : " and ", out);
		if (g)
			fprintf(out, "members of %s", g->gr_name);
		else
			fprintf(out, "members of group %u", o->groups[i]);
	}
	fclose(out);
	return text;
}
