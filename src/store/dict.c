#include "store/dict.h"

#include <errno.h>

#define BATCH_MAX  (64u << 20) /* of entries in a row, after zstd */
#define LEVEL      3
#define JOIN_LEVEL 6
#define JOIN_ROWS  32          /* so many small rows … */
#define JOIN_SMALL (64 << 10)  /* … of up to so many bytes become one … */
#define ROW_MAX    (16u << 20) /* … of up to so many before zstd, as is any row that is written */

static int load_row(struct dict *d, const void *blob, size_t len)
{
	size_t size;

	if (compressor_unpack(&d->compressor, blob, len, BATCH_MAX, &size) < 0)
		return -EUCLEAN;
	struct unpack in = {d->compressor.bytes, d->compressor.bytes + size, false};
	while (in.at < in.end)
		if (entries_read(d->p, &in) < 0)
			return -EUCLEAN;
	return 0;
}

int dict_load(struct dict *d, struct sql *s)
{
	int r;

	*d = (struct dict){.p = profile_new(), .next = 1};
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(s, "SELECT id, entries FROM dictionary ORDER BY id", "");
	while ((r = sql_step(s, st)) > 0) {
		d->next = sqlite3_column_int64(st, 0) + 1;
		r = load_row(d, sqlite3_column_blob(st, 1), (size_t)sqlite3_column_bytes(st, 1));
		if (r)
			break;
	}
	if (r) {
		dict_done(d);
		return r;
	}
	compressor_done(&d->compressor);
	d->mark = (struct entries_mark){profile_string_count(d->p), d->p->module_count,
					d->p->frame_count, d->p->stack_count, d->p->series_count};
	return 0;
}

void dict_done(struct dict *d)
{
	profile_free(d->p);
	compressor_done(&d->compressor);
	*d = (struct dict){};
}

int dict_write(struct dict *d, struct sql *s, struct entries_mark *ret_mark)
{
	struct pack plain = {}, out = {};

	*ret_mark = d->mark;
	if (!entries_pending(d->p, &d->mark))
		return 0;
	bool all = false;
	int r = 0;
	while (!all && !r) {
		plain.len = out.len = 0;
		all = entries_write(d->p, ret_mark, ROW_MAX, &plain);
		compressor_pack(&d->compressor, plain.bytes, plain.len, LEVEL, &out);
		/* The id moves on even if this is not committed. */
		r = sql_run(s, "INSERT INTO dictionary(id, entries) VALUES(?, ?)", "ib", d->next++,
			    out.bytes, out.len);
	}
	pack_done(&plain);
	pack_done(&out);
	return r;
}

void dict_written(struct dict *d, const struct entries_mark *mark)
{
	d->mark = *mark;
}

/* The latest rows that are small, and whether there are enough of them. */
static int join_from(struct sql *s, int64_t *ret_first)
{
	int rows = 0, r;
	size_t sum = 0;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(s,
				   "SELECT id, length(entries), substr(entries, 1, 32)"
				   " FROM dictionary ORDER BY id DESC",
				   "");

	while ((r = sql_step(s, st)) > 0 && sqlite3_column_int64(st, 1) < JOIN_SMALL) {
		size_t size = compressor_size(sqlite3_column_blob(st, 2),
					      (size_t)sqlite3_column_bytes(st, 2));
		if (size > ROW_MAX - sum)
			break;
		sum += size;
		*ret_first = sqlite3_column_int64(st, 0);
		rows++;
	}
	return r < 0 ? r : rows >= JOIN_ROWS;
}

static int read_from(struct dict *d, struct sql *s, int64_t first, struct pack *all)
{
	size_t size;
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(s, "SELECT entries FROM dictionary WHERE id >= ? ORDER BY id", "i", first);

	while ((r = sql_step(s, st)) > 0) {
		if (compressor_unpack(&d->compressor, sqlite3_column_blob(st, 0),
				      (size_t)sqlite3_column_bytes(st, 0), BATCH_MAX, &size) < 0)
			return -EUCLEAN;
		pack_raw(all, d->compressor.bytes, size);
	}
	return r;
}

int dict_join(struct dict *d, struct sql *s)
{
	struct pack all = {}, out = {};
	int64_t first = 0;
	int r = join_from(s, &first);

	if (r <= 0)
		return r;
	r = sql_begin(s);
	r = r ? r : read_from(d, s, first, &all);
	if (!r) {
		compressor_pack(&d->compressor, all.bytes, all.len, JOIN_LEVEL, &out);
		r = sql_run(s, "DELETE FROM dictionary WHERE id >= ?", "i", first);
		r = r ? r
		      : sql_run(s, "INSERT INTO dictionary(id, entries) VALUES(?, ?)", "ib", first,
				out.bytes, out.len);
	}
	if (r)
		sql_rollback(s);
	else
		r = sql_commit(s);
	if (!r)
		d->next = first + 1;
	pack_done(&all);
	pack_done(&out);
	compressor_done(&d->compressor); /* much more than a window's entries need */
	return r ? r : 1;
}

/* Entry 0 of each is its "none". */
static void view_begin(struct dict_view *v)
{
	if (v->string_count)
		return;
	v->strings = mem_alloc_array(v->string_cap = 1024, sizeof(*v->strings));
	v->modules = mem_alloc_array(v->module_cap = 64, sizeof(*v->modules));
	v->frames = mem_alloc_array(v->frame_cap = 1024, sizeof(*v->frames));
	v->stacks = mem_alloc_array(v->stack_cap = 4096, sizeof(*v->stacks));
	v->depths = mem_alloc_array(v->depth_cap = 4096, sizeof(*v->depths));
	v->series = mem_alloc_array(v->series_cap = 64, sizeof(*v->series));
	v->strings[0].bytes = "";
	v->string_count = v->module_count = v->frame_count = v->stack_count = v->series_count = 1;
}

static bool view_string(void *ctx, uint32_t id, const char *s, size_t len)
{
	struct dict_view *v = ctx;

	MEM_GROW(v->strings, v->string_count, v->string_cap);
	v->strings[id] = (struct dict_string){s, (uint32_t)len};
	v->string_count++;
	return true;
}

static bool view_module(void *ctx, uint32_t id, const struct module *m)
{
	struct dict_view *v = ctx;

	MEM_GROW(v->modules, v->module_count, v->module_cap);
	v->modules[id] = *m;
	v->module_count++;
	return true;
}

static bool view_frame(void *ctx, uint32_t id, const struct frame *f)
{
	struct dict_view *v = ctx;

	MEM_GROW(v->frames, v->frame_count, v->frame_cap);
	v->frames[id] = *f;
	v->frame_count++;
	return true;
}

static bool view_stack(void *ctx, uint32_t id, const struct stack *s)
{
	struct dict_view *v = ctx;

	MEM_GROW(v->stacks, v->stack_count, v->stack_cap);
	MEM_GROW(v->depths, v->stack_count, v->depth_cap);
	v->stacks[id] = *s;
	v->depths[id] = (uint16_t)(v->depths[s->parent] + 1);
	v->stack_count++;
	return v->depths[id] <= PROFILE_DEPTH_MAX;
}

static bool view_series(void *ctx, uint32_t id, const struct label *labels, size_t count)
{
	struct dict_view *v = ctx;

	MEM_GROW(v->series, v->series_count, v->series_cap);
	v->series[id] = (struct dict_series){v->label_count, (uint32_t)count};
	v->series_count++;
	for (size_t i = 0; i < count; i++) {
		MEM_GROW(v->labels, v->label_count, v->label_cap);
		v->labels[v->label_count++] = labels[i];
	}
	return true;
}

int dict_view_add(struct dict_view *v, const void *blob, size_t len)
{
	size_t size;

	view_begin(v);
	int r = compressor_unpack(&v->compressor, blob, len, BATCH_MAX, &size);
	if (r)
		return r;
	uint8_t *bytes = TAKE_PTR(v->compressor.bytes);
	v->compressor.cap = 0;
	MEM_GROW(v->buffers, v->bytes_count, v->bytes_cap);
	v->buffers[v->bytes_count++] = bytes;
	v->bytes += len;

	const struct entries_sink to = {view_string, view_module, view_frame,
					view_stack,  view_series, v};
	struct entries_mark have = {v->string_count, v->module_count, v->frame_count,
				    v->stack_count, v->series_count};
	struct unpack in = {bytes, bytes + size, false};
	while (in.at < in.end)
		if (entries_decode(&in, &have, &to) != 0)
			return -EBADMSG;
	return 0;
}

int dict_view_load(struct dict_view *v, struct sql *s)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(s, "SELECT entries FROM dictionary ORDER BY id", "");

	view_begin(v);
	while ((r = sql_step(s, st)) > 0)
		if (dict_view_add(v, sqlite3_column_blob(st, 0),
				  (size_t)sqlite3_column_bytes(st, 0)) < 0)
			return -EUCLEAN;
	return r;
}

void dict_view_done(struct dict_view *v)
{
	for (uint32_t i = 0; i < v->bytes_count; i++)
		free(v->buffers[i]);
	free(v->buffers);
	compressor_done(&v->compressor);
	free(v->strings);
	free(v->modules);
	free(v->frames);
	free(v->stacks);
	free(v->depths);
	free(v->series);
	free(v->labels);
	*v = (struct dict_view){};
}
