#include "query/quality.h"

#include "base/mem.h"

/* Programs that make code, by the beginning of a file's, or a process's, name. */
static const struct {
	const char *prefix, *runtime, *remedy;
} runtimes[] = {
	{"libjvm.so", "java",
	 "start it with -XX:+PreserveFramePointer, and 'jcmd PID Compiler.perfmap' writes the "
	 "names"},
	{"java", "java",
	 "start it with -XX:+PreserveFramePointer, and 'jcmd PID Compiler.perfmap' writes the "
	 "names"},
	{"libnode.so", "node", "start it with --perf-basic-prof"},
	{"node", "node", "start it with --perf-basic-prof"},
	{"libpython3", "python", "start it with -X perf (3.12 and later)"},
	{"python3", "python", "start it with -X perf (3.12 and later)"},
	{"beam.smp", "Erlang", "start it with +JPperf true"},
	{"libcoreclr.so", ".NET", "set DOTNET_PerfMapEnabled=1"},
	{"dotnet", ".NET", "set DOTNET_PerfMapEnabled=1"},
	{"libruby", "ruby", "start it with --yjit --yjit-perf"},
	{"ruby", "ruby", "start it with --yjit --yjit-perf"},
	{"php", "php", "set opcache.jit_debug=16"},
	{"libluajit", "LuaJIT", "build it with -DLUAJIT_USE_PERFTOOLS"},
	{"luajit", "LuaJIT", "build it with -DLUAJIT_USE_PERFTOOLS"},
	{"qemu-", "QEMU", "start it with -perfmap"},
};
enum { RUNTIMES = ARRAY_SIZE(runtimes), NOBODY = RUNTIMES };

static unsigned runtime_of(const char *name)
{
	unsigned i = 0;

	while (i < RUNTIMES && strncmp(name, runtimes[i].prefix, strlen(runtimes[i].prefix)) != 0)
		i++;
	return i;
}

/* Of a frame: */
enum { NAMED, IN_FILE, MADE, MARK_INCOMPLETE, MARK_TRUNCATED, MARK_OTHER };

static uint8_t class_of(const struct profile *p, const struct frame *f)
{
	const char *name = profile_str(p, f->name);

	if (f->kind == FRAME_MARK)
		return strcmp(name, "[incomplete]") == 0  ? MARK_INCOMPLETE
		       : strcmp(name, "[truncated]") == 0 ? MARK_TRUNCATED
							  : MARK_OTHER;
	if (name[0] != '[' || strcmp(name, "[vdso]") == 0 || strcmp(name, "[vsyscall]") == 0)
		return NAMED;
	if (f->kind == FRAME_JIT || strcmp(name, "[anon]") == 0)
		return MADE;
	return strstr(name, "+0x") || strcmp(name, "[unknown]") == 0 ? IN_FILE : NAMED;
}

/* What is known of each stack, by what is known of its parent, which has a smaller id. */
struct seen {
	uint64_t total;  /* samples in it and below */
	uint32_t module; /* of the nearest frame, it or a caller, that lies in a file; 0: none */
	uint16_t frames, unnamed, orphans; /* orphans: made at run time, by nobody knows whom */
	bool user, incomplete, truncated, by_pointers;
};

static void look_at(const struct profile *p, const uint8_t *classes, struct seen *seen, uint32_t id)
{
	const struct stack *s = &p->stacks[id];
	const struct frame *f = &p->frames[s->frame];
	uint8_t class = classes[s->frame];
	struct seen *at = &seen[id];

	*at = seen[s->parent];
	at->total = 0;
	at->incomplete |= class == MARK_INCOMPLETE;
	at->truncated |= class == MARK_TRUNCATED;
	if (class >= MARK_INCOMPLETE)
		return;
	at->by_pointers |= f->kind == FRAME_JIT && at->user; /* a caller stands below it */
	at->user |= !frame_is_kernel(f->kind);
	at->frames++;
	at->unnamed += class != NAMED;
	if (f->module && class != MADE)
		at->module = f->module;
	at->orphans += class == MADE && !at->module;
}

struct tally {
	uint64_t *in_files; /* by module: frames without a name */
	uint64_t *made_by;  /* by module: frames of code that was made at run time */
	uint64_t runtimes[RUNTIMES + 1];
	uint64_t met[RUNTIMES + 1]; /* frames of the runtimes' own files */
};

static void tally_stacks(const struct profile *p, const uint8_t *classes, struct seen *seen,
			 struct tally *t)
{
	for (uint32_t id = p->stack_count; id-- > 1;) {
		const struct frame *f = &p->frames[p->stacks[id].frame];
		uint8_t class = classes[p->stacks[id].frame];
		seen[p->stacks[id].parent].total += seen[id].total;
		if (class == IN_FILE)
			t->in_files[f->module] += seen[id].total;
		else if (class == MADE && seen[id].module)
			t->made_by[seen[id].module] += seen[id].total;
		else if (class == NAMED && f->module)
			t->met[runtime_of(profile_str(p, p->modules[f->module].name))] +=
				seen[id].total;
	}
	for (uint32_t i = 1; i < p->module_count; i++)
		t->runtimes[runtime_of(profile_str(p, p->modules[i].name))] += t->made_by[i];
}

/* Whose code those are that were called by nothing known: by the process's name, or a guess. */
static void tally_orphans(const struct profile *p, const struct seen *seen, struct tally *t)
{
	unsigned most = NOBODY;

	for (unsigned i = 0; i < RUNTIMES; i++)
		if (t->met[i] && (most == NOBODY || t->met[i] > t->met[most]))
			most = i;
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		if (!seen[s->stack].orphans)
			continue;
		const char *comm = profile_label(p, s->series, "comm");
		unsigned who = comm ? runtime_of(comm) : NOBODY;
		t->runtimes[who == NOBODY ? most : who] += s->count * seen[s->stack].orphans;
	}
}

static const char *text(const struct profile *p, uint32_t id)
{
	const char *s = profile_str(p, id);

	return s && *s ? s : NULL;
}

static void find_worst(const struct profile *p, const struct tally *t, struct quality *ret)
{
	for (uint32_t i = 1; i < p->module_count; i++)
		if (t->in_files[i] > ret->worst) {
			ret->worst = t->in_files[i];
			ret->file = text(p, p->modules[i].name);
			ret->path = text(p, p->modules[i].path);
			ret->build_id = text(p, p->modules[i].build_id);
		}
	for (unsigned i = 0; i <= RUNTIMES; i++)
		if (t->runtimes[i] > ret->worst) {
			ret->worst = t->runtimes[i];
			ret->file = ret->path = ret->build_id = NULL;
			ret->runtime = i < RUNTIMES ? runtimes[i].runtime : NULL;
			ret->remedy = i < RUNTIMES ? runtimes[i].remedy : NULL;
		}
}

void quality_of(const struct profile *p, struct quality *ret)
{
	CLEANUP(freep) uint8_t *classes = mem_alloc_array(p->frame_count + 1, sizeof(*classes));
	CLEANUP(freep) struct seen *seen = mem_alloc_array(p->stack_count + 1, sizeof(*seen));
	CLEANUP(freep)
	uint64_t *tallies = mem_alloc_array(p->module_count + 1, 2 * sizeof(uint64_t));
	struct tally t = {.in_files = tallies, .made_by = tallies + p->module_count + 1};

	*ret = (struct quality){};
	for (uint32_t i = 1; i < p->frame_count; i++)
		classes[i] = class_of(p, &p->frames[i]);
	for (uint32_t id = 1; id < p->stack_count; id++)
		look_at(p, classes, seen, id);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		uint64_t n = p->samples[i].count;
		struct seen *at = &seen[p->samples[i].stack];
		at->total += n;
		ret->stacks += at->user || at->incomplete ? n : 0;
		ret->incomplete += at->incomplete ? n : 0;
		ret->truncated += at->truncated && at->user && !at->incomplete ? n : 0;
		ret->by_pointers += at->by_pointers ? n : 0;
		ret->frames += n * at->frames;
		ret->unnamed += n * at->unnamed;
	}
	tally_stacks(p, classes, seen, &t);
	tally_orphans(p, seen, &t);
	find_worst(p, &t, ret);
}

const char *quality_hint(const struct quality *q, struct quality_help help,
			 char ret[static QUALITY_HINT])
{
	const char *id = q->build_id;
	const char *ask =
		help.debuginfod && id ? ", or let the server ask for them: --debuginfod URL" : "";
	CLEANUP(freep) char *package = NULL;

	ret[0] = '\0';
	if (!q->unnamed || q->unnamed < q->frames / 100.0)
		return ret;
	if (help.packages && !q->remedy && q->path && id)
		package = packages_find(help.packages, q->path, id);
	if (q->remedy)
		snprintf(ret, QUALITY_HINT, "most unnamed frames are code generated by %s: %s",
			 q->runtime, q->remedy);
	else if (q->worst && !q->file)
		snprintf(ret, QUALITY_HINT,
			 "most unnamed frames are code generated at run time; the program can "
			 "write its names to /tmp/perf-PID.map");
	else if (q->file && strcmp(q->file, "[kernel]") == 0)
		snprintf(ret, QUALITY_HINT, "most unnamed frames are in the kernel");
	else if (q->file && package)
		snprintf(ret, QUALITY_HINT,
			 "most unnamed frames are in %.200s; install the package %.100s for its "
			 "symbols%s",
			 q->file, package, ask);
	else if (q->file && id && strlen(id) > 2)
		snprintf(ret, QUALITY_HINT,
			 "most unnamed frames are in %.160s; put its debug file at "
			 "/usr/lib/debug/.build-id/%.2s/%.60s.debug%s",
			 q->path ? q->path : q->file, id, id + 2, ask);
	else if (q->file)
		snprintf(ret, QUALITY_HINT, "most unnamed frames are in %.200s",
			 q->path ? q->path : q->file);
	return ret;
}
