#include "pipeline/wakers.h"

#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/index.h"
#include "base/mem.h"

#define HOLDERS_MAX 65536 /* of whom the name is kept */

struct holder {
	uint32_t pid, tid; /* the latter in the process' own pid namespace */
	uint32_t frame;    /* its mark; 0: no such thread */
};

struct wakers {
	struct profile *profile;
	struct stack_edit *stacks;
	uint32_t waking; /* the kernel's function that wakes: a string of the profile */
	uint32_t mark, interrupt, timer; /* stacks */
	struct holder *holders;          /* [0] is not used: index ids start at 1 */
	uint32_t count, cap;
	struct index by_holder;
};

struct wakers *wakers_new(struct profile *p, struct stack_edit *stacks)
{
	struct wakers *w = mem_alloc(sizeof(*w));

	w->profile = p;
	w->stacks = stacks;
	w->count = 1;
	w->waking = profile_string(p, "try_to_wake_up", strlen("try_to_wake_up"));
	w->mark = stack_edit_mark(stacks, 0, "[waker]");
	w->interrupt = stack_edit_mark(stacks, w->mark, "[interrupt]");
	w->timer = stack_edit_mark(stacks, w->mark, "[timer]");
	return w;
}

void wakers_free(struct wakers *w)
{
	if (!w)
		return;
	free(w->holders);
	index_done(&w->by_holder);
	free(w);
}

/* ---- who woke -------------------------------------------------------------------------------- */

/* Where the kernel comes in when a device, a timer or another CPU interrupts it. */
static bool is_interrupt(const char *name)
{
	static const char *const entries[] = {
		"asm_sysvec_",   "asm_common_interrupt", "el1_interrupt",
		"el0_interrupt", "el1h_64_irq",          "el0t_64_irq",
	};

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (strncmp(name, entries[i], strlen(entries[i])) == 0)
			return true;
	return false;
}

/* The stack that ends with the entry of the interrupt; 0: it was none. */
static uint32_t find_interrupt(const struct profile *p, uint32_t stack, bool *ret_timer)
{
	for (; stack; stack = p->stacks[stack].parent) {
		const struct frame *f = &p->frames[p->stacks[stack].frame];
		const char *name = profile_str(p, f->name);
		if (!frame_is_kernel(f->kind))
			return 0;
		if (strcmp(name, "hrtimer_interrupt") == 0 ||
		    strcmp(name, "run_timer_softirq") == 0)
			*ret_timer = true;
		if (is_interrupt(name))
			return stack;
	}
	return 0;
}

static void name_thread(const char name[static WIRE_COMM], uint32_t id, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s (%u)", WIRE_COMM, name, id);
}

uint32_t wakers_stack(struct wakers *w, const struct wire_event *e, uint32_t stack)
{
	char name[WIRE_COMM + 16];
	bool is_timer = false;

	stack = stack_edit_cut(w->stacks, stack, w->waking);
	uint32_t entry = find_interrupt(w->profile, stack, &is_timer);
	if (entry)
		return stack_edit_move(w->stacks, is_timer ? w->timer : w->interrupt, stack, entry);
	if (!e->pid && !e->tid) /* the idle task does nothing but what interrupts tell it to */
		return stack_edit_move(w->stacks, w->interrupt, stack, 0);
	name_thread(e->comm, e->pid, name, sizeof(name));
	uint32_t at = stack_edit_mark(w->stacks, w->mark, name);
	name_thread(e->thread, e->tid, name, sizeof(name));
	return stack_edit_join(w->stacks, stack_edit_mark(w->stacks, at, name), stack);
}

/* ---- who held -------------------------------------------------------------------------------- */

/* The last number of the line "NSpid:": the tid in the innermost namespace. */
static uint32_t inner_tid(const char *status)
{
	const char *line = strstr(status, "\nNSpid:");
	uint32_t tid = 0;

	if (!line)
		return 0;
	line += strlen("\nNSpid:");
	for (char *end; *line && *line != '\n'; line = end) {
		unsigned long n = strtoul(line, &end, 10);
		if (end == line)
			break;
		tid = (uint32_t)n;
	}
	return tid;
}

static bool read_name(uint32_t pid, uint32_t tid, char ret[static WIRE_COMM])
{
	CLEANUP(freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	if (file_read(path, 4096, &text, NULL) != 0)
		return false;
	snprintf(ret, WIRE_COMM, "%.*s", (int)strcspn(text, "\n"), text);
	return true;
}

/* A thread's tid as we know it, from that of its own namespace; 0: there is none. */
static uint32_t find_thread(uint32_t pid, uint32_t inner)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	DIR *dir = opendir(path);
	uint32_t found = 0;

	for (struct dirent *d; dir && !found && (d = readdir(dir));) {
		CLEANUP(freep) char *status = NULL;
		CLEANUP(freep) char *file = mem_printf("%s/%s/status", path, d->d_name);
		if (d->d_name[0] != '.' && file_read(file, 65536, &status, NULL) == 0 &&
		    inner_tid(status) == inner)
			found = (uint32_t)strtoul(d->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return found;
}

static uint32_t holder_frame(struct wakers *w, uint32_t pid, uint32_t inner)
{
	char name[WIRE_COMM], text[64];
	uint32_t tid = find_thread(pid, inner);

	if (!tid || !read_name(pid, tid, name))
		return 0;
	int len = snprintf(text, sizeof(text), "[held by %s (%u)]", name, tid);
	struct frame f = {.name = profile_string(w->profile, text, (size_t)len),
			  .kind = FRAME_MARK};
	return profile_frame(w->profile, &f);
}

uint32_t wakers_holder(struct wakers *w, uint32_t stack, uint32_t pid, uint32_t holder)
{
	uint32_t hash = index_hash2(pid, holder), id, found = 0;

	INDEX_EACH(&w->by_holder, hash, id)
		if (w->holders[id].pid == pid && w->holders[id].tid == holder)
			found = id;
	if (!found && w->count <= HOLDERS_MAX) {
		MEM_GROW(w->holders, w->count, w->cap);
		found = w->count++;
		w->holders[found] = (struct holder){pid, holder, holder_frame(w, pid, holder)};
		index_put(&w->by_holder, hash, found);
	}
	uint32_t frame = found ? w->holders[found].frame : 0;
	return frame ? profile_stack(w->profile, stack, frame) : stack;
}
