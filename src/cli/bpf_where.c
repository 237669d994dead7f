#include "cli/bpf_where.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/text.h"
#include "collect/bpf_code.h"
#include "render/describe.h"
#include "symbol/kallsyms.h"

#define SPOTS_MAX 65536 /* more fall into the last */
#define ROWS      20
#define ITSELF    "(the program itself)"
#define INTERRUPT "(interrupts)"

struct spot {                /* where in the program, and what it had called */
	uint64_t ip, callee; /* callee 0: nothing, the program itself ran */
	bool is_return;      /* callee is a return address */
	uint64_t count;
};

struct row { /* of either table: the keys are `number` and `name` */
	uint32_t number;
	char name[256];                   /* of the file; or of what is called */
	const struct bpf_code_line *line; /* whose number it is; NULL: it is a map's id */
	uint64_t total, self;
};

struct rows {
	struct row *rows;
	size_t count, cap;
};

struct bpf_where {
	struct bpf_code *code;
	struct spot *spots; /* [0] is not used: ids begin at 1 */
	uint32_t count, cap;
	struct index by_place;
	uint64_t seen;
};

int bpf_where_new(uint32_t id, struct bpf_where **ret)
{
	struct bpf_code *code;
	int err = bpf_code_new(id, &code);

	if (err)
		return err;
	struct bpf_where *w = mem_alloc(sizeof(*w));
	w->code = code;
	w->count = 1;
	*ret = w;
	return 0;
}

void bpf_where_free(struct bpf_where *w)
{
	if (!w)
		return;
	bpf_code_free(w->code);
	index_done(&w->by_place);
	free(w->spots);
	free(w);
}

uint64_t bpf_where_seen(const struct bpf_where *w)
{
	return w->seen;
}

static struct spot *find_spot(struct bpf_where *w, uint64_t ip, uint64_t callee)
{
	uint32_t hash = index_hash2(ip, callee), id;

	INDEX_EACH(&w->by_place, hash, id)
		if (w->spots[id].ip == ip && w->spots[id].callee == callee)
			return &w->spots[id];
	if (w->count >= SPOTS_MAX)
		return &w->spots[SPOTS_MAX - 1];
	MEM_GROW(w->spots, w->count, w->cap);
	id = w->count++;
	index_put(&w->by_place, hash, id);
	w->spots[id] = (struct spot){.ip = ip, .callee = callee};
	return &w->spots[id];
}

void bpf_where_sample(void *ctx, const uint64_t *frames, size_t count)
{
	struct bpf_where *w = ctx;
	size_t at = 0;

	/* A return address may be the first byte behind the code. */
	while (at < count && !bpf_code_has(w->code, frames[at] - (at > 0)))
		at++;
	if (at == count)
		return;
	struct spot *s = find_spot(w, frames[at] - (at > 0), at ? frames[at - 1] : 0);
	s->is_return = at > 1;
	s->count++;
	w->seen++;
}

/* ---- tables --------------------------------------------------------------------------------- */

static struct row *find_row(struct rows *r, uint32_t number, const char *name)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->rows[i].number == number && strcmp(r->rows[i].name, name) == 0)
			return &r->rows[i];
	MEM_GROW(r->rows, r->count, r->cap);
	r->rows[r->count] = (struct row){.number = number};
	text_clean_to(name, strlen(name), r->rows[r->count].name, sizeof(r->rows->name));
	return &r->rows[r->count++];
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void sort_rows(struct rows *r)
{
	if (r->count)
		qsort(r->rows, r->count, sizeof(*r->rows), compare_rows);
}

static void add_lines(const struct bpf_where *w, struct rows *ret)
{
	for (uint32_t i = 1; i < w->count; i++) {
		const struct spot *s = &w->spots[i];
		int place = bpf_code_place(w->code, s->ip);
		if (place < 0)
			continue;
		const struct bpf_code_line *line = bpf_code_line(w->code, place);
		struct row *r = find_row(ret, line->line, line->file);
		r->line = line;
		r->total += s->count;
		r->self += s->callee ? 0 : s->count;
	}
	sort_rows(ret);
}

/* What interrupted the program, and was not called by it. */
static bool is_interrupt(const char *name)
{
	return strncmp(name, "asm_", 4) == 0 || strncmp(name, "ret_from_intr", 13) == 0 ||
	       strncmp(name, "el1", 3) == 0;
}

/* The function that the program had called: what ran there may be one that this has jumped to. */
static const char *name_call(struct bpf_where *w, struct kallsyms *names, const struct spot *s,
			     uint32_t *ret_map)
{
	struct symbol symbol = {.name = "?"};
	struct bpf_code_call call;
	const char *module;

	if (!s->callee)
		return ITSELF;
	if (names)
		kallsyms_find(names, s->callee - s->is_return, &symbol, &module);
	if (is_interrupt(symbol.name))
		return INTERRUPT;
	if (bpf_code_call(w->code, bpf_code_place(w->code, s->ip), symbol.start, &call) != 0)
		return symbol.name;
	*ret_map = call.map;
	if (names && call.function != symbol.start)
		kallsyms_find(names, call.function, &symbol, &module);
	return symbol.name;
}

/* By what the program had called, and with which map. */
static void add_calls(struct bpf_where *w, struct rows *ret)
{
	struct kallsyms *names = NULL;

	if (kallsyms_load(NULL, &names) != 0)
		names = NULL;
	for (uint32_t i = 1; i < w->count; i++) {
		uint32_t map = 0;
		const char *name = name_call(w, names, &w->spots[i], &map);
		find_row(ret, map, name)->total += w->spots[i].count;
	}
	kallsyms_free(names);
	sort_rows(ret);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_line(const struct bpf_where *w, const struct row *r, unsigned columns, FILE *out)
{
	CLEANUP(freep)
	char *text =
		mem_printf("%s:%u  %s", base_name(r->line->file), r->line->line, r->line->text);
	size_t taken, len = strlen(text);

	if (columns > 32)
		len = describe_fit(text, len, columns - 32, &taken);
	fprintf(out, "  %6.1f %% %8.1f %% %8llu  %.*s\n",
		100.0 * (double)r->total / (double)w->seen,
		100.0 * (double)r->self / (double)w->seen, (unsigned long long)r->total, (int)len,
		text);
}

static void print_call(const struct bpf_where *w, const struct row *r, const struct bpf_programs *p,
		       FILE *out)
{
	const struct loaded_map *m = r->number ? bpf_programs_map(p, r->number) : NULL;

	fprintf(out, "  %6.1f %% %8llu  %-32s %s%s\n", 100.0 * (double)r->total / (double)w->seen,
		(unsigned long long)r->total, r->name, m ? "map " : "", m ? m->name : "");
}

void bpf_where_text(struct bpf_where *w, const struct bpf_programs *p, unsigned columns, FILE *out)
{
	struct rows lines = {}, calls = {};

	if (!w->seen)
		return;
	add_calls(w, &calls);
	fputs("\nBy what it calls:\n     SHARE  SAMPLES  FUNCTION\n", out);
	for (size_t i = 0; i < MIN(calls.count, (size_t)ROWS); i++)
		print_call(w, &calls.rows[i], p, out);
	add_lines(w, &lines);
	if (lines.count)
		fputs("\nBy source line, with what it calls, and by itself:\n"
		      "     TOTAL       SELF  SAMPLES  LINE\n",
		      out);
	else
		fputs("\nThe program has no line information: compile it with clang -g.\n", out);
	for (size_t i = 0; i < MIN(lines.count, (size_t)ROWS); i++)
		print_line(w, &lines.rows[i], columns, out);
	free(lines.rows);
	free(calls.rows);
}

void bpf_where_json(struct bpf_where *w, const struct bpf_programs *p, json_t *o)
{
	struct rows lines = {}, calls = {};
	json_t *line_list = json_array(), *call_list = json_array();

	add_lines(w, &lines);
	for (size_t i = 0; i < lines.count; i++) {
		const struct row *r = &lines.rows[i];
		json_array_append_new(line_list,
				      json_pack("{s:s,s:I,s:s,s:s,s:I,s:I}", "file", r->line->file,
						"line", (json_int_t)r->line->line, "function",
						r->line->function, "text", r->line->text, "samples",
						(json_int_t)r->total, "self", (json_int_t)r->self));
	}
	add_calls(w, &calls);
	for (size_t i = 0; i < calls.count; i++) {
		const struct row *r = &calls.rows[i];
		const struct loaded_map *m = r->number ? bpf_programs_map(p, r->number) : NULL;
		json_t *call = json_pack("{s:s,s:I}", "function", r->name, "samples",
					 (json_int_t)r->total);
		if (r->number)
			json_object_set_new(call, "map_id", json_integer((json_int_t)r->number));
		if (m)
			json_object_set_new(call, "map", json_string(m->name));
		json_array_append_new(call_list, call);
	}
	json_object_set_new(o, "lines", line_list);
	json_object_set_new(o, "calls", call_list);
	free(lines.rows);
	free(calls.rows);
}
