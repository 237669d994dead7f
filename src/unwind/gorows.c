#include "unwind/gorows.h"

#include <errno.h>

#include "base/mem.h"
#include "process/gopclntab.h"
#include "unwind/goasm.h"

#define NAME_MAX_LEN 64 /* longer than the names that goasm knows */

struct go_reader {
	const struct elf_file *e;
	const struct gopclntab *go;
	struct goasm goasm;
	struct cfi_stats *stats;
	uint64_t start, end; /* of the functions so far; start 0: none yet */

	cfa_row_fn *row; /* gets the rows; last_at and last are the latest */
	void *arg;
	uint64_t last_at;
	struct unwind_rule last;
};

static void broken(struct go_reader *r, uint64_t record, const char *why)
{
	r->stats->broken++;
	if (!r->stats->why) {
		r->stats->why = why;
		r->stats->where = r->go->records + record;
	}
}

static int put_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct go_reader *r = arg;

	if (memcmp(&rule, &r->last, sizeof(rule)) == 0 && r->stats->rows)
		return 0;
	/* The byte before a function may have a row already. */
	start = MAX(start, r->stats->rows ? r->last_at + 1 : r->start);
	if (start >= r->end)
		return 0;
	if (r->stats->rows == CFI_ROWS_MAX) {
		r->stats->why = "too many rows";
		return -EFBIG;
	}
	r->last_at = start;
	r->last = rule;
	r->stats->rows++;
	r->stats->other += rule.cfa == UNWIND_UNSUPPORTED;
	return r->row(r->arg, start, rule);
}

/* ---- stack depths --------------------------------------------------------------------------- */

/* Pairs of numbers: the change of the depth, and for how many bytes it then stays. */
struct depths {
	const struct elf_file *e;
	uint64_t offset, left; /* of what is not in buf yet */
	struct byte_reader bytes;
	uint64_t pc;
	int64_t depth; /* begins at -1 */
	bool begun;
	uint8_t buf[128];
};

/* Fills the buffer, so that it has at least one complete pair. */
static bool fill(struct depths *d)
{
	size_t have = byte_reader_left(&d->bytes);
	if (have >= 20 || d->left == 0)
		return true;
	size_t more = (size_t)MIN(d->left, (uint64_t)sizeof(d->buf) - have);
	if (have)
		memmove(d->buf, d->bytes.at, have);
	if (elf_file_read(d->e, d->buf + have, more, d->offset) < 0)
		return false;
	d->offset += more;
	d->left -= more;
	d->bytes = (struct byte_reader){.at = d->buf, .end = d->buf + have + more};
	return true;
}

/* The next depth and where it starts: 1; 0 at the end; -EBADMSG. */
static int next_depth(struct depths *d, struct goasm_step *ret)
{
	if (!fill(d))
		return -EBADMSG;
	uint64_t change = byte_reader_uleb(&d->bytes);
	if (d->bytes.bad)
		return -EBADMSG;
	if (change == 0 && d->begun)
		return 0;
	d->begun = true;
	uint64_t len = byte_reader_uleb(&d->bytes);
	int64_t by = (int64_t)(change >> 1) ^ -(int64_t)(change & 1);
	*ret = (struct goasm_step){.start = d->pc};
	if (d->bytes.bad || len == 0 || len > UINT32_MAX ||
	    __builtin_add_overflow(d->depth, by, &d->depth))
		return -EBADMSG;
	ret->depth = d->depth;
	d->pc += len;
	return 1;
}

/* ---- functions ------------------------------------------------------------------------------ */

static int put_plain(struct go_reader *r, struct depths *d, uint64_t end, uint64_t record)
{
	struct goasm_step step;
	int more, err;

	while ((more = next_depth(d, &step)) > 0 && step.start < end) {
		err = put_row(r, step.start, goasm_rule(step.depth));
		if (err)
			return err;
	}
	if (more >= 0 && d->begun)
		return 0;
	broken(r, record, "malformed stack depths of a function");
	return put_row(r, d->pc, (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED});
}

static int put_special(struct go_reader *r, struct depths *d, struct goasm_func *f)
{
	struct goasm_step steps[GOASM_STEPS_MAX];
	uint8_t code[GOASM_CODE_MAX];
	uint64_t at;

	while (f->step_count < ARRAY_SIZE(steps) && next_depth(d, &steps[f->step_count]) > 0 &&
	       steps[f->step_count].start < f->end)
		f->step_count++;
	f->steps = steps;
	f->code = code;
	f->code_len = (size_t)MIN(f->end - f->start, (uint64_t)sizeof(code));
	if (!elf_file_offset(r->e, f->start, &at) || elf_file_read(r->e, code, f->code_len, at) < 0)
		f->code_len = 0;
	return goasm_rows(&r->goasm, f, put_row, r);
}

static bool is_special(const struct go_reader *r, uint64_t record, unsigned flags,
		       char name[static NAME_MAX_LEN])
{
	uint64_t at;

	at = gopclntab_name(r->go, r->e, record);
	if (at == 0)
		return false;
	size_t len = (size_t)MIN(r->e->size - at, (uint64_t)NAME_MAX_LEN - 1);
	if (elf_file_read(r->e, name, len, at) < 0)
		len = 0;
	name[len] = '\0';
	return goasm_is_special(name, flags & GO_WRITES_SP);
}

static int put_func(void *arg, uint64_t start, uint64_t size, uint64_t record)
{
	struct go_reader *r = arg;
	struct gopclntab_func func;
	char name[NAME_MAX_LEN];
	const struct unwind_rule other = {.cfa = UNWIND_UNSUPPORTED};

	if (start < r->end || start == 0 || size > UINT32_MAX) {
		broken(r, record, "a function is out of order");
		return 0;
	}
	if (r->stats->functions == CFI_FDES_MAX) {
		r->stats->why = "too many functions";
		return -EFBIG;
	}
	r->stats->functions++;
	if (r->start == 0)
		r->start = r->end = start;
	uint64_t gap = r->end;
	r->end = start + size;
	int err = gap < start ? put_row(r, gap, (struct unwind_rule){.cfa = UNWIND_UNKNOWN}) : 0;
	if (err)
		return err;
	if (gopclntab_func(r->go, r->e, record, &func) < 0) {
		broken(r, record, "malformed function record");
		return put_row(r, start, other);
	}
	if (func.depths_len == 0)
		return put_row(r, start, other);
	struct depths d = {.e = r->e,
			   .offset = func.depths,
			   .left = func.depths_len,
			   .pc = start,
			   .depth = -1};
	if (!is_special(r, record, func.flags, name))
		return put_plain(r, &d, r->end, record);
	struct goasm_func f = {.name = name, .start = start, .end = r->end};
	return put_special(r, &d, &f);
}

/* ---- both tables ---------------------------------------------------------------------------- */

/* Passes on the rows of the CFI, replacing those in the range of Go's functions by Go's. */
struct merge {
	struct go_reader *r;
	uint64_t start, end;     /* of Go's functions; 0: none */
	struct unwind_rule held; /* the latest rule of the CFI */
	bool done;
};

static int extend(void *arg, uint64_t start, uint64_t size, uint64_t record)
{
	struct merge *m = arg;

	(void)record;
	if (start == 0 || start < m->end || size > UINT32_MAX)
		return 0;
	if (m->end == 0)
		m->start = start;
	m->end = start + size;
	return 0;
}

static int put_go(struct merge *m)
{
	struct go_reader *r = m->r;

	m->done = true;
	int err = gopclntab_each(r->go, r->e, put_func, r);
	return err ? err : r->row(r->arg, m->end, m->held);
}

static int put_other(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct merge *m = arg;

	if (!m->done && start > m->end) {
		int err = put_go(m);
		if (err)
			return err;
	}
	m->held = rule;
	return start < m->start || m->done ? m->r->row(m->r->arg, start, rule) : 0;
}

static void add_stats(struct cfi_stats *to, const struct cfi_stats *s)
{
	to->functions += s->functions;
	to->rows += s->rows;
	to->other += s->other;
	to->broken += s->broken;
	if (!to->why) {
		to->why = s->why;
		to->where = s->where;
	}
}

int gorows_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats)
{
	struct gopclntab go;
	struct cfi_stats own = {};
	struct go_reader r = {.e = e, .go = &go, .stats = &own, .row = row, .arg = arg};
	struct merge m = {.r = &r};

	if (e->machine != GOASM_MACHINE || e->is_32_bit || !elf_file_is_go(e) ||
	    gopclntab_init(&go, e) < 0 || gopclntab_each(&go, e, extend, &m) < 0 || m.end == 0)
		return cfi_each(e, row, arg, stats);

	int err = cfi_each(e, put_other, &m, stats);
	if ((err == 0 || err == -ENOENT) && !m.done)
		err = put_go(&m);
	add_stats(stats, &own);
	return err;
}
