#include "query/block_table.h"

#include <stdlib.h>

#include "base/mem.h"
#include "store/store.h"

static uint32_t name_of(struct block_table *t, const char *s)
{
	return string_pool_put(&t->names, s, strlen(s));
}

static bool is_unnamed(const char *name)
{
	return strcmp(name, "[anon]") == 0 || strcmp(name, "[unknown]") == 0 ||
	       (name[0] == '[' && strstr(name, "+0x"));
}

/* ---- what there is ------------------------------------------------------------------------- */

static uint32_t find_function(const struct block_table *t, uint32_t name, uint32_t module,
			      enum frame_kind kind)
{
	uint32_t hash = index_hash2((uint64_t)name << 32 | module, kind), id;

	INDEX_EACH(&t->by_function, hash, id) {
		const struct block_function *f = &t->functions[id];
		if (f->name == name && f->module == module && f->kind == kind)
			return id;
	}
	return 0;
}

static uint32_t add_function(struct block_table *t, const char *name, const char *module,
			     enum frame_kind kind)
{
	bool unnamed = is_unnamed(name);
	struct block_function f = {.module = name_of(t, module), .kind = kind};

	f.name = name_of(t, unnamed ? "[unnamed]" : name);
	f.is_unnamed = unnamed;
	uint32_t id = find_function(t, f.name, f.module, kind);
	if (id)
		return id;
	id = t->function_count++;
	MEM_GROW(t->functions, id, t->function_cap);
	t->functions[id] = f;
	index_put(&t->by_function, index_hash2((uint64_t)f.name << 32 | f.module, kind), id);
	return id;
}

uint32_t block_table_function(const struct block_table *t, const char *name, const char *module,
			      enum frame_kind kind)
{
	const char *known = is_unnamed(name) ? "[unnamed]" : name;
	uint32_t id = string_pool_find(&t->names, known, strlen(known));
	uint32_t in = string_pool_find(&t->names, module, strlen(module));

	return id && (in || !*module) ? find_function(t, id, in, kind) : 0;
}

static uint32_t add_process(struct block_table *t, const char *comm)
{
	uint32_t name = name_of(t, comm), hash = index_hash2(name, 3), id;

	INDEX_EACH(&t->by_process, hash, id)
		if (t->processes[id].name == name)
			return id;
	id = t->process_count++;
	MEM_GROW(t->processes, id, t->process_cap);
	t->processes[id] = (struct block_process){.name = name};
	for (int i = 0; i < BLOCK_SIDES; i++)
		t->processes[id].blocks[i] =
			mem_alloc_array((size_t)t->sides[i].blocks + 1, sizeof(double));
	index_put(&t->by_process, hash, id);
	return id;
}

static uint32_t find_row(const struct block_table *t, uint32_t process, uint32_t function)
{
	uint32_t id;

	INDEX_EACH(&t->by_row, index_hash2(process, function), id)
		if (t->rows[id].process == process && t->rows[id].function == function)
			return id;
	return 0;
}

static uint32_t add_row(struct block_table *t, uint32_t process, uint32_t function)
{
	uint32_t id = find_row(t, process, function);

	if (id)
		return id;
	id = t->row_count++;
	MEM_GROW(t->rows, id, t->row_cap);
	t->rows[id] = (struct block_row){.process = process, .function = function};
	index_put(&t->by_row, index_hash2(process, function), id);
	return id;
}

/* What frames and series of a side are. */
static void look_up(struct block_table *t, int side)
{
	const struct profile *p = t->sides[side].p;
	uint32_t *functions = mem_alloc_array((size_t)p->frame_count + 1, sizeof(*functions));
	uint32_t *processes = mem_alloc_array((size_t)p->series_count + 1, sizeof(*processes));
	uint32_t *blocks = mem_alloc_array((size_t)p->series_count + 1, sizeof(*blocks));

	for (uint32_t i = 1; i < p->frame_count; i++) {
		const struct frame *f = &p->frames[i];
		const char *module = f->module ? profile_str(p, p->modules[f->module].name) : "";
		if (f->kind != FRAME_MARK)
			functions[i] = add_function(t, profile_str(p, f->name), module, f->kind);
	}
	for (uint32_t i = 0; i < p->series_count; i++) {
		const char *comm = profile_label(p, i, "comm");
		const char *block = profile_label(p, i, STORE_BLOCK);
		processes[i] = add_process(t, comm && *comm ? comm : "(no name)");
		blocks[i] = block ? (uint32_t)strtoul(block, NULL, 10) : 0;
	}
	t->function_of[side] = functions;
	t->process_of[side] = processes;
	t->block_of[side] = blocks;
}

/* ---- the numbers --------------------------------------------------------------------------- */

/* The functions of a stack, each once, the innermost first. */
static uint32_t list_functions(struct block_table *t, int side, uint32_t stack, uint32_t *ret)
{
	const struct profile *p = t->sides[side].p;
	uint32_t n = 0;

	t->seen_at++;
	for (uint32_t at = stack; at; at = p->stacks[at].parent) {
		uint32_t f = t->function_of[side][p->stacks[at].frame];
		if (!f || t->seen[f] == t->seen_at)
			continue;
		t->seen[f] = t->seen_at;
		ret[n++] = f;
	}
	return n;
}

static void count_samples(struct block_table *t, int side, uint32_t *stack)
{
	const struct profile *p = t->sides[side].p;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		uint32_t process = t->process_of[side][s->series];
		uint32_t n = list_functions(t, side, s->stack, stack);
		t->processes[process].samples += s->count;
		for (uint32_t k = 0; k < n; k++) {
			uint32_t row = add_row(t, process, stack[k]); /* may move the rows */
			t->rows[row].samples += s->count;
		}
	}
}

uint32_t block_table_leaf(const struct block_table *t, int side, const struct sample *s)
{
	const struct profile *p = t->sides[side].p;
	uint32_t f = s->stack ? t->function_of[side][p->stacks[s->stack].frame] : 0;

	return f ? find_row(t, t->process_of[side][s->series], f) : 0;
}

static void add_up(struct block_table *t, int side, uint32_t *stack)
{
	const struct profile *p = t->sides[side].p;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		uint32_t block = t->block_of[side][s->series];
		struct block_process *of = &t->processes[t->process_of[side][s->series]];
		double value = (double)s->value;
		if (block >= t->sides[side].blocks)
			continue;
		of->blocks[side][block] += value;
		of->sums[side] += value;
		t->machine[side][block] += value;
		uint32_t n = block_table_stack(t, side, s, stack);
		for (uint32_t k = 0; k < n; k++)
			if (t->rows[stack[k]].total[side])
				t->rows[stack[k]].total[side][block] += value;
		uint32_t leaf = block_table_leaf(t, side, s);
		if (t->rows[leaf].self[side])
			t->rows[leaf].self[side][block] += value;
	}
}

uint32_t block_table_stack(struct block_table *t, int side, const struct sample *s, uint32_t *ret)
{
	uint32_t process = t->process_of[side][s->series];
	uint32_t n = list_functions(t, side, s->stack, ret);

	for (uint32_t i = 0; i < n; i++)
		ret[i] = find_row(t, process, ret[i]);
	return n;
}

static double *room(struct block_table *t, int side)
{
	size_t size = ((size_t)t->sides[side].blocks + 1) * sizeof(double);

	return memset(arena_alloc(&t->numbers, size), 0, size);
}

struct block_table *block_table_new(const struct block_side *base, const struct block_side *now)
{
	struct block_table *t = mem_alloc(sizeof(*t));
	CLEANUP(freep) uint32_t *stack = mem_alloc_array(PROFILE_DEPTH_MAX + 1, sizeof(*stack));

	t->sides[BLOCK_BASE] = *base;
	t->sides[BLOCK_NOW] = *now;
	t->process_count = t->function_count = t->row_count = 1;
	/* One more than asked for: the entry that is not used. */
	MEM_GROW(t->processes, t->process_count, t->process_cap);
	MEM_GROW(t->functions, t->function_count, t->function_cap);
	MEM_GROW(t->rows, t->row_count, t->row_cap);
	t->processes[0] = (struct block_process){};
	t->functions[0] = (struct block_function){};
	t->rows[0] = (struct block_row){};
	for (int i = 0; i < BLOCK_SIDES; i++) {
		t->machine[i] = room(t, i);
		look_up(t, i);
	}
	t->seen = mem_alloc_array((size_t)t->function_count + 1, sizeof(*t->seen));
	for (int i = 0; i < BLOCK_SIDES; i++)
		count_samples(t, i, stack);
	for (uint32_t i = 1; i < t->row_count; i++) {
		if (t->rows[i].samples < BLOCK_TABLE_LEAST)
			continue;
		for (int k = 0; k < BLOCK_SIDES; k++) {
			t->rows[i].self[k] = room(t, k);
			t->rows[i].total[k] = room(t, k);
		}
	}
	for (int i = 0; i < BLOCK_SIDES; i++)
		add_up(t, i, stack);
	return t;
}

void block_table_free(struct block_table *t)
{
	if (!t)
		return;
	for (uint32_t i = 1; i < t->process_count; i++)
		for (int k = 0; k < BLOCK_SIDES; k++)
			free(t->processes[i].blocks[k]);
	for (int i = 0; i < BLOCK_SIDES; i++) {
		free(t->function_of[i]);
		free(t->process_of[i]);
		free(t->block_of[i]);
	}
	free(t->processes);
	free(t->functions);
	free(t->rows);
	free(t->seen);
	index_done(&t->by_process);
	index_done(&t->by_function);
	index_done(&t->by_row);
	string_pool_done(&t->names);
	arena_done(&t->numbers);
	free(t);
}
