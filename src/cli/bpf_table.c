#include "cli/bpf_table.h"

#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "render/describe.h"

#define NAME_COLUMNS   24
#define OWNER_COLUMNS  22
#define PAST_COLUMNS   20
#define NARROW         120 /* columns of the terminal */
#define NARROW_COLUMNS 16

enum column { ID, CPU, AVERAGE, MOST, RUNS, TIME, MAPS, PAST, TYPE, NAME, OWNER, PLACE, COLUMNS };

static const struct {
	const char *title;
	int width; /* less than 0: text, which stands on the left */
} columns[COLUMNS] = {
	[ID] = {"ID", 6},
	[CPU] = {"CPU %", 8},
	[AVERAGE] = {"AVG %", 8},
	[MOST] = {"MAX %", 8},
	[RUNS] = {"RUNS/S", 10},
	[TIME] = {"NS/RUN", 8},
	[MAPS] = {"MAPS", 10},
	[PAST] = {"BEFORE", -PAST_COLUMNS},
	[TYPE] = {"TYPE", -16},
	[NAME] = {"NAME", -NAME_COLUMNS},
	[OWNER] = {"OWNER", -OWNER_COLUMNS},
	[PLACE] = {"ATTACHED TO", -11},
};

/* ---- figures -------------------------------------------------------------------------------- */

static uint64_t runs_in(const struct loaded_program *l)
{
	return l->now.count - MIN(l->now.count, l->last.count);
}

static double runs_a_second(const struct loaded_program *l)
{
	uint64_t ns = l->now.at_ns - l->last.at_ns;

	return ns ? (double)runs_in(l) * 1e9 / (double)ns : 0;
}

static double time_of_a_run(const struct loaded_program *l)
{
	return runs_in(l) ? (double)(l->now.time_ns - l->last.time_ns) / (double)runs_in(l) : 0;
}

static double percent(const struct bpf_runs *from, const struct bpf_runs *to)
{
	return 100 * bpf_runs_share(from, to);
}

static double figure(const struct loaded_program *l, enum column c)
{
	switch (c) {
	case CPU:
		return percent(&l->last, &l->now);
	case AVERAGE:
		return percent(&l->first, &l->now);
	case MOST:
		return 100 * (double)l->most;
	case RUNS:
		return runs_a_second(l);
	case TIME:
		return time_of_a_run(l);
	case MAPS:
		return (double)l->map_bytes;
	default:
		return -(double)l->id;
	}
}

/* ---- which, and in which order -------------------------------------------------------------- */

static bool is_in(uint32_t id, const uint32_t *list, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i] == id)
			return true;
	return !count;
}

static bool is_shown(const struct bpf_view *v, const struct bpf_uses *u,
		     const struct loaded_program *l)
{
	char type[16];
	size_t count;
	const struct bpf_owner *owners = bpf_uses_owners(u, l->id, &count);
	bool owned = !v->pid_count;

	for (size_t i = 0; i < count && !owned; i++)
		owned = owners[i].pid && is_in(owners[i].pid, v->pids, v->pid_count);
	return owned && is_in(l->id, v->ids, v->id_count) &&
	       (!v->name || strstr(l->name, v->name)) &&
	       (!v->type || strcmp(v->type, bpf_program_type(l->type, type)) == 0);
}

static int compare(const void *a, const void *b, void *ctx)
{
	static const enum column by[BPF_ORDERS] = {
		[BPF_ORDER_CPU] = CPU,   [BPF_ORDER_AVERAGE] = AVERAGE, [BPF_ORDER_RUNS] = RUNS,
		[BPF_ORDER_TIME] = TIME, [BPF_ORDER_MAPS] = MAPS,       [BPF_ORDER_ID] = ID,
		[BPF_ORDER_NAME] = NAME};
	const struct loaded_program *x = *(struct loaded_program *const *)a;
	const struct loaded_program *y = *(struct loaded_program *const *)b;
	enum bpf_order order = *(const enum bpf_order *)ctx;
	double fx = figure(x, by[order]), fy = figure(y, by[order]);
	int named = order == BPF_ORDER_NAME ? strcmp(x->name, y->name) : 0;

	if (named)
		return named;
	if (fx != fy)
		return fx > fy ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Those to be shown, in order. Caller frees. */
static const struct loaded_program **choose(const struct bpf_view *v, const struct bpf_programs *p,
					    const struct bpf_uses *u, size_t *ret_count)
{
	size_t all, count = 0;
	struct loaded_program *list = bpf_programs_list(p, &all);
	const struct loaded_program **chosen =
		mem_alloc_array(all + 1, sizeof(struct loaded_program *));
	enum bpf_order order = v->order;

	for (size_t i = 0; i < all; i++)
		if (is_shown(v, u, &list[i]))
			chosen[count++] = &list[i];
	qsort_r(chosen, count, sizeof(*chosen), compare, &order);
	*ret_count = count;
	return chosen;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* "…" if there is no room for one more. */
static bool is_full(char ret[static BPF_TABLE_TEXT])
{
	size_t n = strlen(ret);

	if (n + BPF_USES_TEXT + 32 < BPF_TABLE_TEXT)
		return false;
	snprintf(ret + n, BPF_TABLE_TEXT - n, ", …");
	return true;
}

__attribute__((format(printf, 2, 3))) static void append(char ret[static BPF_TABLE_TEXT],
							 const char *fmt, ...)
{
	size_t n = strlen(ret);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret + n, BPF_TABLE_TEXT - n, fmt, ap);
	va_end(ap);
}

const char *bpf_table_owners(const struct bpf_uses *u, uint32_t id, char ret[static BPF_TABLE_TEXT])
{
	size_t count;
	const struct bpf_owner *owners = bpf_uses_owners(u, id, &count);

	ret[0] = '\0';
	for (size_t i = 0; i < count && !is_full(ret); i++) {
		append(ret, "%s", i ? ", " : "");
		if (owners[i].pid)
			append(ret, "%u ", owners[i].pid);
		append(ret, "%s", owners[i].name);
	}
	return count ? ret : "-";
}

const char *bpf_table_places(const struct bpf_uses *u, uint32_t id, char ret[static BPF_TABLE_TEXT])
{
	size_t count;
	const struct bpf_place *places = bpf_uses_places(u, id, &count);

	ret[0] = '\0';
	for (size_t i = 0; i < count && !is_full(ret); i++) {
		append(ret, "%s", i ? ", " : "");
		if (places[i].count > 1)
			append(ret, "%u × ", places[i].count);
		append(ret, "%s", places[i].text);
	}
	return count ? ret : "-";
}

const char *bpf_table_past(const struct loaded_program *l, unsigned intervals,
			   char ret[static BPF_TABLE_PAST])
{
	static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	unsigned count = MIN(MIN(l->past_count, intervals), BPF_PROGRAM_PAST);
	float most = 0;
	size_t n = 0;

	for (unsigned i = 0; i < count; i++)
		most = MAX(most, l->past[(l->past_count - 1 - i) % BPF_PROGRAM_PAST]);
	for (unsigned i = count; i-- > 0;) {
		float share = l->past[(l->past_count - 1 - i) % BPF_PROGRAM_PAST];
		size_t bar = most > 0 ? (size_t)(share / most * 8 + 0.5f) : 0;
		const char *text = bars[share > 0 ? MAX(MIN(bar, (size_t)8), (size_t)1) : 0];
		memcpy(ret + n, text, strlen(text));
		n += strlen(text);
	}
	ret[n] = '\0';
	return ret;
}

/* On a narrow terminal, text gives way first. */
static unsigned width_of(const struct bpf_view *v, enum column c)
{
	if (v->columns && v->columns < NARROW && (c == NAME || c == OWNER))
		return NARROW_COLUMNS;
	return (unsigned)abs(columns[c].width);
}

/* Which columns fit: the last one, of text, is cut. */
static void choose_columns(const struct bpf_view *v, bool ret[static COLUMNS])
{
	static const enum column first_to_go[] = {PAST, MOST, TYPE, AVERAGE, MAPS, OWNER};
	unsigned width = 0;

	for (int c = 0; c < COLUMNS; c++) {
		ret[c] = c != PAST || v->columns;
		width += width_of(v, (enum column)c) + (columns[c].width < 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(first_to_go) && v->columns && width > v->columns; i++) {
		if (!ret[first_to_go[i]])
			continue;
		ret[first_to_go[i]] = false;
		width -= width_of(v, first_to_go[i]) + (columns[first_to_go[i]].width < 0);
	}
}

/* Text in its column; the last of a line is as long as the terminal is wide. */
static void print_text(const struct bpf_view *v, enum column c, const char *text, unsigned *used,
		       FILE *out)
{
	size_t room = width_of(v, c), taken, len = strlen(text);

	if (c == PLACE) {
		if (v->columns)
			len = describe_fit(text, len,
					   v->columns > *used + 1 ? v->columns - *used - 1 : 1,
					   &taken);
		fprintf(out, " %.*s\n", (int)len, text);
		return;
	}
	/* Where nothing is cut, a longer text moves what stands behind it. */
	len = describe_fit(text, len, v->columns ? room : SIZE_MAX, &taken);
	fprintf(out, " %.*s%*s", (int)len, text, taken < room ? (int)(room - taken) : 0, "");
	*used += (unsigned)room + 1;
}

static void print_cell(const struct bpf_view *v, const struct loaded_program *l,
		       const struct bpf_uses *u, enum column c, unsigned *used, FILE *out)
{
	char text[BPF_TABLE_TEXT], amount[DESCRIBE_MAX], past[BPF_TABLE_PAST];
	double value = figure(l, c);
	int width = columns[c].width;

	if (c == ID)
		fprintf(out, "%*u", width, l->id);
	else if (c == MAPS)
		fprintf(out, "%*s", width,
			l->map_bytes ? describe_amount(l->map_bytes, "bytes", amount) : "-");
	else if (c == RUNS)
		fprintf(out, "%*.*f", width, value > 0 && value < 10 ? 1 : 0, value);
	else if (c == TIME && !runs_in(l))
		fprintf(out, "%*s", width, "-");
	else if (width > 0)
		fprintf(out, "%*.*f", width, c == TIME ? 0 : 3, value);
	*used += width > 0 ? (unsigned)width : 0;
	if (c == PAST)
		print_text(v, c, bpf_table_past(l, PAST_COLUMNS, past), used, out);
	else if (c == TYPE)
		print_text(v, c, bpf_program_type(l->type, text), used, out);
	else if (c == NAME)
		print_text(v, c, l->name[0] ? l->name : l->tag, used, out);
	else if (c == OWNER)
		print_text(v, c, bpf_table_owners(u, l->id, text), used, out);
	else if (c == PLACE)
		print_text(v, c, bpf_table_places(u, l->id, text), used, out);
}

static void print_summary(const struct bpf_view *v, const struct loaded_program **shown,
			  size_t count, const struct bpf_programs *p, FILE *out)
{
	struct tm local;
	time_t now = time(NULL);
	static const char *const orders[BPF_ORDERS] = {
		[BPF_ORDER_CPU] = "cpu",   [BPF_ORDER_AVERAGE] = "avg", [BPF_ORDER_RUNS] = "runs",
		[BPF_ORDER_TIME] = "time", [BPF_ORDER_MAPS] = "maps",   [BPF_ORDER_ID] = "id",
		[BPF_ORDER_NAME] = "name"};
	char clock[16], line[256], lost[64] = "", keys[64] = "";
	double all = 0;
	size_t running = 0, taken;

	for (size_t i = 0; i < count; i++) {
		all += figure(shown[i], CPU);
		running += runs_in(shown[i]) != 0;
	}
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
	if (bpf_programs_left_out(p))
		snprintf(lost, sizeof(lost), ", %llu more left out",
			 (unsigned long long)bpf_programs_left_out(p));
	if (v->lines)
		snprintf(keys, sizeof(keys), "; s: sort (%s), q: end", orders[v->order]);
	snprintf(line, sizeof(line), "%s  %zu BPF program%s, %zu ran: %.3f %% of a CPU%s%s", clock,
		 count, count == 1 ? "" : "s", running, all, lost, keys);
	fprintf(out, "%.*s\n",
		(int)describe_fit(line, strlen(line), v->columns ? v->columns : SIZE_MAX, &taken),
		line);
}

void bpf_table_text(const struct bpf_view *v, const struct bpf_programs *p,
		    const struct bpf_uses *u, FILE *out)
{
	size_t count;
	CLEANUP(freep) const struct loaded_program **shown = choose(v, p, u, &count);
	/* The terminal's last line stays empty: a newline there would scroll. */
	size_t lines = v->lines ? (v->lines > 3 ? v->lines - 3 : 0) : SIZE_MAX;
	bool is_there[COLUMNS];
	unsigned used = 0;

	choose_columns(v, is_there);
	print_summary(v, shown, count, p, out);
	for (int c = 0; c < COLUMNS; c++) {
		if (is_there[c] && columns[c].width > 0)
			fprintf(out, "%*s", columns[c].width, columns[c].title);
		else if (is_there[c])
			print_text(v, (enum column)c, columns[c].title, &used, out);
		used += columns[c].width > 0 && is_there[c] ? (unsigned)columns[c].width : 0;
	}
	for (size_t i = 0; i < count && i < lines; i++) {
		used = 0;
		for (int c = 0; c < COLUMNS; c++)
			if (is_there[c])
				print_cell(v, shown[i], u, (enum column)c, &used, out);
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *json_uses(const struct loaded_program *l, const struct bpf_uses *u, bool owners)
{
	json_t *list = json_array();
	size_t count;
	const struct bpf_owner *o = bpf_uses_owners(u, l->id, &count);

	for (size_t i = 0; owners && i < count; i++)
		json_array_append_new(list,
				      o[i].pid ? json_pack("{s:I,s:s}", "pid", (json_int_t)o[i].pid,
							   "comm", o[i].name)
					       : json_pack("{s:s}", "file", o[i].name));
	const struct bpf_place *p = bpf_uses_places(u, l->id, &count);
	for (size_t i = 0; !owners && i < count; i++)
		json_array_append_new(list, json_pack("{s:s,s:I}", "to", p[i].text, "count",
						      (json_int_t)p[i].count));
	return list;
}

static json_t *json_maps(const struct loaded_program *l, const struct bpf_programs *p)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < l->map_count; i++) {
		const struct loaded_map *m = bpf_programs_map(p, l->maps[i]);
		if (m)
			json_array_append_new(list, json_pack("{s:I,s:s,s:I}", "id",
							      (json_int_t)m->id, "name", m->name,
							      "bytes", (json_int_t)m->bytes));
	}
	return list;
}

json_t *bpf_table_row(const struct loaded_program *l, const struct bpf_programs *p,
		      const struct bpf_uses *u)
{
	uint64_t since_ns = clock_ns(CLOCK_BOOTTIME) - l->loaded_ns;
	char type[16];

	return json_pack("{s:I,s:s,s:s,s:s,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,"
			 "s:I,s:o,s:o,s:o}",
			 "id", (json_int_t)l->id, "type", bpf_program_type(l->type, type), "name",
			 l->name, "tag", l->tag, "uid", (json_int_t)l->uid, "loaded_for_seconds",
			 (double)since_ns / 1e9, "runs", (json_int_t)runs_in(l), "ns",
			 (json_int_t)(l->now.time_ns - l->last.time_ns), "misses",
			 (json_int_t)(l->now.misses - l->last.misses), "run_cnt",
			 (json_int_t)l->now.count, "run_time_ns", (json_int_t)l->now.time_ns,
			 "recursion_misses", (json_int_t)l->now.misses, "runs_per_second",
			 runs_a_second(l), "ns_per_run", time_of_a_run(l), "cpu_percent",
			 figure(l, CPU), "average_cpu_percent", figure(l, AVERAGE),
			 "max_cpu_percent", figure(l, MOST), "map_bytes", (json_int_t)l->map_bytes,
			 "owners", json_uses(l, u, true), "attached", json_uses(l, u, false),
			 "maps", json_maps(l, p));
}

void bpf_table_json(const struct bpf_view *v, const struct bpf_programs *p,
		    const struct bpf_uses *u, double seconds, FILE *out)
{
	size_t count;
	CLEANUP(freep) const struct loaded_program **shown = choose(v, p, u, &count);
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, bpf_table_row(shown[i], p, u));
	json_t *line = json_pack(
		"{s:f,s:f,s:I,s:o}", "time", (double)clock_ms(CLOCK_REALTIME) / 1000, "seconds",
		seconds, "left_out", (json_int_t)bpf_programs_left_out(p), "programs", list);
	json_dumpf(line, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	json_decref(line);
}
