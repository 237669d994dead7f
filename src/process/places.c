#include "process/places.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/root.h"
#include "process/container.h"
#include "process/container_names.h"

#define USERS      16 /* whose names are remembered */
#define SHOWN      12 /* digits of an id */
#define USERS_FILE (1u << 20)

struct known_place {
	uint64_t cgroup;
	struct place place;
};

struct known_user {
	char uid[sizeof(((struct container *)NULL)->uid)], name[64];
};

struct places {
	struct cgroups *groups;
	const char *root;
	struct known_place *list; /* [0] is not used: index ids start at 1 */
	uint32_t count, cap;
	struct index by_cgroup;
	struct arena strings;
	struct known_user users[USERS];
	struct places_stats stats;
};

struct places *places_new(struct cgroups *groups, const char *root)
{
	struct places *p = mem_alloc(sizeof(*p));

	p->groups = groups;
	p->root = root;
	p->count = 1;
	return p;
}

void places_free(struct places *p)
{
	if (!p)
		return;
	free(p->list);
	index_done(&p->by_cgroup);
	arena_done(&p->strings);
	free(p);
}

static const char *keep_len(struct places *p, const char *text, size_t len)
{
	return len ? arena_strndup(&p->strings, text, len) : "";
}

static const char *keep(struct places *p, const char *text)
{
	return keep_len(p, text, strlen(text));
}

/* The name of a user, as the host's /etc/passwd has it. Libraries would ask daemons as well,
 * through sockets, which a collector may not open. */
static void read_user(const struct places *p, struct known_user *u)
{
	struct stat st;
	CLEANUP(fd_closep) int fd = root_open(p->root, "/etc/passwd", 0, &st);
	CLEANUP(file_closep)
	FILE *f = fd >= 0 && st.st_size <= USERS_FILE ? fdopen(fd, "re") : NULL;
	const struct passwd *one;

	u->name[0] = '\0';
	if (!f)
		return;
	fd = -1; /* it is the stream's now */
	while ((one = fgetpwent(f))) {
		char uid[sizeof(u->uid)];
		snprintf(uid, sizeof(uid), "%u", one->pw_uid);
		if (strcmp(uid, u->uid) == 0) {
			snprintf(u->name, sizeof(u->name), "%s", one->pw_name);
			return;
		}
	}
}

static const char *user_of(struct places *p, const char *uid)
{
	struct known_user *u = &p->users[strtoul(uid, NULL, 10) % USERS];

	if (!*uid)
		return "";
	if (strcmp(u->uid, uid) != 0) {
		snprintf(u->uid, sizeof(u->uid), "%s", uid);
		read_user(p, u);
	}
	return keep(p, *u->name ? u->name : uid);
}

/* Letters that Kubernetes generates names of: no vowels, and no digits that look like them. */
static bool is_generated(const char *text, size_t len)
{
	return strspn(text, "bcdfghjklmnpqrstvwxz2456789") >= len;
}

/* How long a name is without its last part, which has `least` to `most` generated letters. */
static size_t without_part(const char *name, size_t len, size_t least, size_t most)
{
	size_t part = 0;

	while (part < len && name[len - part - 1] != '-')
		part++;
	if (part < least || part > most || part + 1 >= len ||
	    !is_generated(name + len - part, part))
		return len;
	return len - part - 1;
}

size_t places_workload(const char *pod)
{
	size_t len = strlen(pod), number = len;

	while (number && pod[number - 1] >= '0' && pod[number - 1] <= '9')
		number--;
	if (number < len && number > 1 && pod[number - 1] == '-')
		return number - 1;                 /* of a StatefulSet */
	size_t set = without_part(pod, len, 5, 5); /* of a DaemonSet, a Job or a ReplicaSet, … */
	return set == len ? len : without_part(pod, set, 6, 10); /* … which is of a Deployment */
}

size_t places_tag(const char *image, const char **ret)
{
	static const char digest[] = "@sha256:";
	const char *at = strstr(image, digest), *end = at ? at : image + strlen(image);
	const char *tag = end;

	while (tag > image && tag[-1] != ':' && tag[-1] != '/')
		tag--;
	if (tag > image && tag[-1] == ':') {
		*ret = tag;
		return (size_t)(end - tag);
	}
	*ret = at ? at + strlen(digest) : "";
	return MIN(strlen(*ret), (size_t)SHOWN);
}

/* docs/labels.md has the rule. */
static const char *service_of(struct places *p, const struct container *c,
			      const struct container_names *n)
{
	static const char suffix[] = ".service";
	size_t len = strlen(c->unit), cut = strlen(suffix);

	if (*n->pod)
		return keep_len(p, n->pod, places_workload(n->pod));
	if (*n->container)
		return keep(p, n->container);
	if (*c->container && !*c->id) /* LXC's is a name */
		return keep(p, c->container);
	return len > cut && strcmp(c->unit + len - cut, suffix) == 0
		       ? keep_len(p, c->unit, len - cut)
		       : "";
}

static void look(struct places *p, const char *path, struct place *ret)
{
	struct container_names n = {.runtime = ""};
	struct container c;

	container_of_cgroup(path, &c);
	if (*c.id) {
		int r = container_names_read(p->root, c.id, c.runtime, &n);
		p->stats.unreadable += r && r != -ENOENT;
	}
	const char *tag;
	size_t tag_len = places_tag(n.image, &tag);
	*ret = (struct place){
		.container = keep(p, *n.container ? n.container : c.container),
		.container_id = *c.id ? keep_len(p, c.id, SHOWN) : "",
		.pod = keep(p, *n.pod ? n.pod : c.pod),
		.pod_uid = keep(p, c.pod),
		.namespace = keep(p, n.namespace),
		.runtime = *c.runtime ? c.runtime : n.runtime,
		.qos = c.qos,
		.unit = keep(p, c.unit),
		.slice = keep(p, c.slice),
		.user = user_of(p, c.uid),
		.service = service_of(p, &c, &n),
		.version = keep_len(p, tag, tag_len),
	};
}

const struct place *places_get(struct places *p, uint64_t cgroup)
{
	uint32_t hash = index_hash2(cgroup, 0), at;

	INDEX_EACH(&p->by_cgroup, hash, at)
		if (p->list[at].cgroup == cgroup)
			return &p->list[at].place;
	if (p->count > PLACES_KNOWN) {
		p->count = 1;
		index_clear(&p->by_cgroup);
		arena_reset(&p->strings);
	}
	while (p->count >= p->cap)
		MEM_GROW(p->list, p->cap, p->cap);
	at = p->count++;
	p->list[at].cgroup = cgroup;
	look(p, cgroup ? cgroups_path(p->groups, cgroup) : "", &p->list[at].place);
	index_put(&p->by_cgroup, hash, at);
	return &p->list[at].place;
}

void places_stats(const struct places *p, struct places_stats *ret)
{
	*ret = p->stats;
}
