#include "process/places.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/pack.h"
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

struct known_pod {
	char uid[sizeof(((struct pod *)NULL)->uid)];
	char *texts; /* namespace, name; id, name and image of each container; key and value of each
			label: one behind the other, each with its NUL */
	uint32_t containers, labels;
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
	struct known_pod *pods; /* [0] is not used */
	uint32_t pod_count, pod_cap;
	struct index by_uid;
	uint32_t revision;           /* of what is known of pods */
	bool lacks_new, lacks_still; /* see places_wants_pods() */
	struct places_stats stats;
};

static void forget_pods(struct places *p)
{
	for (uint32_t i = 1; i < p->pod_count; i++)
		free(p->pods[i].texts);
	p->pod_count = 1;
	index_clear(&p->by_uid);
}

struct places *places_new(struct cgroups *groups, const char *root)
{
	struct places *p = mem_alloc(sizeof(*p));

	p->groups = groups;
	p->root = root;
	p->count = p->pod_count = 1;
	return p;
}

void places_free(struct places *p)
{
	if (!p)
		return;
	forget_pods(p);
	free(p->pods);
	index_done(&p->by_uid);
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

/* ---- pods, as a kubelet tells of them ------------------------------------------------------ */

static struct known_pod *find_pod(const struct places *p, const char *uid)
{
	uint32_t at;

	INDEX_EACH(&p->by_uid, index_hash_bytes(uid, strlen(uid)), at)
		if (strcmp(p->pods[at].uid, uid) == 0)
			return &p->pods[at];
	return NULL;
}

static void put_text(struct pack *texts, const char *text)
{
	pack_raw(texts, text, strlen(text) + 1);
}

void places_pod(struct places *p, const struct pod *pod)
{
	struct known_pod *known = find_pod(p, pod->uid);
	struct pack texts = {};

	if (!known) {
		if (p->pod_count > PODS_MAX)
			forget_pods(p);
		while (p->pod_count >= p->pod_cap)
			MEM_GROW(p->pods, p->pod_cap, p->pod_cap);
		known = &p->pods[p->pod_count];
		*known = (struct known_pod){};
		snprintf(known->uid, sizeof(known->uid), "%s", pod->uid);
		index_put(&p->by_uid, index_hash_bytes(pod->uid, strlen(pod->uid)), p->pod_count++);
	}
	put_text(&texts, pod->namespace);
	put_text(&texts, pod->name);
	for (uint32_t i = 0; i < pod->container_count; i++) {
		put_text(&texts, pod->containers[i].id);
		put_text(&texts, pod->containers[i].name);
		put_text(&texts, pod->containers[i].image);
	}
	for (uint32_t i = 0; i < pod->label_count; i++) {
		put_text(&texts, pod->labels[i].key);
		put_text(&texts, pod->labels[i].value);
	}
	free(known->texts);
	known->texts = (char *)texts.bytes;
	known->containers = pod->container_count;
	known->labels = pod->label_count;
	p->revision++;
}

static const char *next_text(const char **at)
{
	const char *text = *at;

	*at += strlen(text) + 1;
	return text;
}

/* What is told again is not kept again. */
static void set(struct places *p, const char **to, const char *text, size_t len)
{
	if (strlen(*to) != len || memcmp(*to, text, len) != 0)
		*to = keep_len(p, text, len);
}

/* Adds what is known of a place's pod by now. */
static void add_pod(struct places *p, struct place *to)
{
	const struct known_pod *known = *to->pod_uid ? find_pod(p, to->pod_uid) : NULL;
	const char *at = known ? known->texts : NULL;

	to->revision = p->revision;
	to->lacks_pod = *to->pod_uid && (!known || *to->container_id);
	if (!known)
		return;
	const char *namespace = next_text(&at), *name = next_text(&at);
	set(p, &to->namespace, namespace, strlen(namespace));
	set(p, &to->pod, name, strlen(name));
	set(p, &to->service, name, places_workload(name));
	for (uint32_t i = 0; i < known->containers; i++) {
		const char *id = next_text(&at), *container = next_text(&at), *tag;
		size_t tag_len = places_tag(next_text(&at), &tag);
		if (!*to->container_id || strncmp(id, to->container_id, SHOWN) != 0)
			continue;
		set(p, &to->container, container, strlen(container));
		if (tag_len)
			set(p, &to->version, tag, tag_len);
		to->lacks_pod = false;
	}
	for (uint32_t i = 0; i < known->labels; i++) {
		CLEANUP(freep) char *key = mem_printf("pod_label_%s", next_text(&at));
		const char *value = next_text(&at);
		if (i >= to->label_count)
			to->labels[i] = (struct place_label){"", ""};
		set(p, &to->labels[i].key, key, strlen(key));
		set(p, &to->labels[i].value, value, strlen(value));
	}
	to->label_count = known->labels;
}

bool places_wants_pods(struct places *p, bool *ret_is_new)
{
	bool wants = p->lacks_new || p->lacks_still;

	*ret_is_new = p->lacks_new;
	p->lacks_new = p->lacks_still = false;
	return wants;
}

/* ---- places -------------------------------------------------------------------------------- */

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
	add_pod(p, ret);
	p->lacks_new |= ret->lacks_pod;
}

const struct place *places_get(struct places *p, uint64_t cgroup)
{
	uint32_t hash = index_hash2(cgroup, 0), at;

	INDEX_EACH(&p->by_cgroup, hash, at)
		if (p->list[at].cgroup == cgroup) {
			struct place *known = &p->list[at].place;
			if (known->lacks_pod && known->revision != p->revision) {
				add_pod(p, known);
				p->lacks_still |= known->lacks_pod;
			}
			return known;
		}
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
