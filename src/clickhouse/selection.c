#include "clickhouse/selection.h"

#include <errno.h>
#include <inttypes.h>

#include "profile/entries.h"

#define SQL_MAX   2000 /* bytes of a value that becomes SQL */
#define LABEL_MAX (64u << 10)

static const char *plain_label(const struct matcher_label *labels, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(labels[i].key, key) == 0)
			return labels[i].value;
	return "";
}

const char *selection_label(const struct matcher_label *labels, size_t count, const char *key)
{
	const char *value = plain_label(labels, count, key);

	return *value || strcmp(key, "thread") != 0 ? value : plain_label(labels, count, "comm");
}

static bool is_sql(const struct matcher *m)
{
	return m->op != MATCHER_REGEX && m->op != MATCHER_NOT_REGEX && strlen(m->value) < SQL_MAX &&
	       strlen(m->label) < SQL_MAX;
}

static void put_label(FILE *f, const char *label)
{
	fputs("label_values[indexOf(label_names, ", f);
	clickhouse_quote(f, label);
	fputs(")]", f);
}

static void put_matcher(FILE *f, const struct matcher *m)
{
	bool is_thread = strcmp(m->label, "thread") == 0;

	fputs(m->op == MATCHER_PREFIX ? " AND startsWith(" : " AND ", f);
	if (is_thread) {
		fputs("if(", f);
		put_label(f, "thread");
		fputs(" != '', ", f);
		put_label(f, "thread");
		fputs(", ", f);
		put_label(f, "comm");
		fputs(")", f);
	} else {
		put_label(f, m->label);
	}
	fputs(m->op == MATCHER_PREFIX ? ", " : m->op == MATCHER_EQUAL ? " = " : " != ", f);
	clickhouse_quote(f, m->value);
	fputs(m->op == MATCHER_PREFIX ? ")" : "", f);
}

/* What of the matchers is SQL; whether that is all of them. */
static char *conditions(const struct store_query *q, bool *ret_all)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	*ret_all = true;
	for (size_t i = 0; i < q->matcher_count; i++) {
		if (is_sql(&q->matchers[i]))
			put_matcher(f, &q->matchers[i]);
		else
			*ret_all = false;
	}
	fclose(f);
	return text;
}

/* The table is sorted by this one. */
static char *service(const struct store_query *q)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; i < q->matcher_count; i++) {
		const struct matcher *m = &q->matchers[i];
		if (m->op == MATCHER_EQUAL && strcmp(m->label, "service") == 0 && is_sql(m)) {
			fputs(" AND service = ", f);
			clickhouse_quote(f, m->value);
		}
	}
	fclose(f);
	return text;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* The texts of an array, into the arena. Returns how many. */
static size_t read_texts(struct unpack *in, struct arena *a,
			 const char *ret[static ENTRIES_LABELS_MAX])
{
	uint64_t count = unpack_max(in, ENTRIES_LABELS_MAX);

	for (uint64_t i = 0; i < count; i++) {
		size_t len;
		const char *text = unpack_str(in, LABEL_MAX, &len);
		ret[i] = arena_strndup(a, text, len);
	}
	return in->bad ? 0 : count;
}

struct listing {
	struct selection *sel;
	struct matching matching;
	selection_place_fn *place;
	void *ctx;
};

static void take(struct listing *l, const struct content_hash *series,
		 struct matcher_label labels[static ENTRIES_LABELS_MAX + 1], size_t count)
{
	struct selection *sel = l->sel;

	if (!*plain_label(labels, count, "thread") && *plain_label(labels, count, "comm")) {
		labels[count] =
			(struct matcher_label){"thread", plain_label(labels, count, "comm")};
		count++;
	}
	if (!matching_accepts(&l->matching, labels, count))
		return;
	MEM_GROW(sel->all, sel->count, sel->cap);
	sel->all[sel->count++] =
		(struct selected){*series, l->place ? l->place(l->ctx, series, labels, count) : 0};
	index_put(&sel->index, content_index(series), sel->count);
	pack_raw(&sel->wanted, series->bytes, sizeof(series->bytes));
}

static int list(struct listing *l, struct client_rows *rows)
{
	struct arena texts = {};

	while (rowbinary_more(&rows->in) && !l->matching.failed) {
		const char *keys[ENTRIES_LABELS_MAX], *values[ENTRIES_LABELS_MAX];
		struct matcher_label labels[ENTRIES_LABELS_MAX + 1];
		struct content_hash series;
		rowbinary_get_bytes(&rows->in, series.bytes, sizeof(series.bytes));
		size_t count = read_texts(&rows->in, &texts, keys);
		if (read_texts(&rows->in, &texts, values) != count)
			break;
		for (size_t i = 0; i < count; i++)
			labels[i] = (struct matcher_label){keys[i], values[i]};
		take(l, &series, labels, count);
		arena_reset(&texts);
	}
	arena_done(&texts);
	return rows->in.bad ? -EPROTO : 0;
}

int selection_init(struct selection *sel, struct clickhouse_store *s, const struct store_query *q,
		   const char *table, const char *where, uint64_t from_ms, uint64_t to_ms,
		   selection_place_fn *place, void *ctx, struct store_error *e)
{
	CLEANUP(freep) char *days = clickhouse_days(from_ms, to_ms);
	struct listing l = {.sel = sel, .place = place, .ctx = ctx};
	struct matcher_error why;
	struct client_rows rows;
	bool all;

	*sel = (struct selection){};
	CLEANUP(freep) char *sql = conditions(q, &all), *of_service = service(q);
	bool windows = strcmp(table, "windows") == 0;
	if (!place && all) {
		sel->condition =
			q->matcher_count
				? mem_printf(
					  "%s AND series IN (SELECT series FROM series WHERE %s%s)",
					  windows ? of_service : "", days, sql)
				: mem_strdup("");
		return 0;
	}
	int r = clickhouse_ask(s, NULL, &rows, e,
			       "SELECT series, any(label_names), any(label_values) FROM series"
			       " WHERE %s%s AND series IN (SELECT series FROM %s WHERE %s%s%s)"
			       " GROUP BY series ORDER BY series",
			       days, sql, table, where, windows ? " AND head = 0" : "",
			       windows ? of_service : "");
	if (r)
		return r;
	sel->is_listed = true;
	matching_init(&l.matching, q->matchers, q->matcher_count);
	r = list(&l, &rows);
	if (matching_failed(&l.matching, &why)) {
		clickhouse_say(e, "%s", why.text);
		r = -EINVAL;
	}
	matching_done(&l.matching);
	client_rows_done(&rows);
	sel->has_table = q->matcher_count && sel->count;
	sel->table = (struct client_table){"wanted", "series FixedString(16)", &sel->wanted};
	sel->condition = mem_printf("%s%s", windows ? of_service : "",
				    !q->matcher_count ? ""
				    : sel->count      ? " AND series IN wanted"
						      : " AND 0");
	if (r)
		selection_done(sel);
	return r;
}

void selection_done(struct selection *sel)
{
	free(sel->condition);
	free(sel->all);
	index_done(&sel->index);
	pack_done(&sel->wanted);
	*sel = (struct selection){};
}

const char *selection_key(const struct selection *sel)
{
	return sel->is_listed ? "series" : "toFixedString('', 16)";
}

bool selection_get(const struct selection *sel, const struct content_hash *series, uint32_t *ret)
{
	uint32_t id;

	*ret = 0;
	if (!sel->is_listed)
		return true;
	INDEX_EACH(&sel->index, content_index(series), id) {
		if (memcmp(&sel->all[id - 1].series, series, sizeof(*series)) != 0)
			continue;
		*ret = sel->all[id - 1].place;
		return true;
	}
	return false;
}
