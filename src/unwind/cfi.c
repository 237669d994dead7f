#include "unwind/cfi.h"

#include <errno.h>

#include "base/mem.h"
#include "base/sort.h"
#include "unwind/cfi_sections.h"

#define CIES_KEPT        64 /* cached; linkers merge equal ones, so files have few */
#define AUGMENTATION_MAX 8
#define TEXTS_MAX        16

/* A function. 16 bytes, since there are up to a million; the address is first, to sort by. */
struct fde {
	uint64_t start;
	uint32_t size;
	uint32_t at : 31; /* offset of its record in the table */
	uint32_t debug : 1;
};

struct kept_cie {
	struct cfa_cie cie;
	uint64_t at; /* offset + 1 in the table; 0: none */
	int error;
};

/* A record of a table, without its length. */
struct record {
	struct byte_reader body;
	uint32_t at;  /* offset in the table */
	uint64_t cie; /* offset of its CIE; unset if it is a CIE */
	bool is_cie;
};

struct cfi_reader {
	struct cfi_stats *stats;
	const Elf64_Phdr *texts[TEXTS_MAX]; /* executable segments */
	unsigned text_count;
	uint64_t entry;               /* of a program; 0: a library's says nothing */
	struct cfi_section tables[2]; /* .eh_frame, .debug_frame */
	struct kept_cie *cies;        /* CIES_KEPT for each table */
	struct fde *fdes;
	uint32_t fde_count, fde_cap;
	uint64_t budget; /* instructions that may still be run */

	cfa_row_fn *row; /* gets the rows; `last` is the latest rule it got */
	void *arg;
	struct unwind_rule last;
	uint64_t limit; /* rows at or after this address belong to the next function */
};

static void broken(struct cfi_reader *r, const struct cfi_section *t, uint64_t at, const char *why)
{
	r->stats->broken++;
	if (!r->stats->why) {
		r->stats->why = why;
		r->stats->where = t->offset + at;
	}
}

/* ---- records -------------------------------------------------------------------------------- */

/* The record at offset `at` of the table; false: malformed. A terminator has no body. */
static bool read_record(const struct cfi_section *t, uint64_t at, struct record *ret)
{
	struct byte_reader b = {.at = t->data + MIN(at, t->size), .end = t->data + t->size};
	uint64_t len = byte_reader_uint(&b, 4);
	unsigned id_size = 4;

	if (len == UINT32_MAX) {
		len = byte_reader_uint(&b, 8);
		id_size = t->debug ? 8 : 4;
	}
	*ret = (struct record){.at = (uint32_t)at};
	ret->body.at = byte_reader_skip(&b, len);
	ret->body.end = b.at;
	if (b.bad || len == 0)
		return !b.bad;

	uint64_t id_at = (uint64_t)(ret->body.at - t->data);
	uint64_t id = byte_reader_uint(&ret->body, id_size);
	if (t->debug) {
		ret->is_cie = id == (id_size == 8 ? UINT64_MAX : UINT32_MAX);
		ret->cie = id;
	} else {
		ret->is_cie = id == 0;
		ret->cie = id_at - id; /* wraps to a huge value if malformed */
	}
	return !ret->body.bad;
}

/* Reads the data of a CIE's augmentation letters; false: an unknown letter. */
static bool read_augmentation(struct byte_reader *b, const char *letters, struct cfa_cie *cie)
{
	if (letters[0] == '\0')
		return true;
	if (letters[0] != 'z')
		return false;
	cie->sized = true;
	uint64_t len = byte_reader_uleb(b);
	struct byte_reader data = {.at = byte_reader_skip(b, len), .end = b->at};
	for (const char *l = letters + 1; *l; l++) {
		if (*l == 'L') {
			byte_reader_uint(&data, 1);
		} else if (*l == 'R') {
			cie->pointers = (uint8_t)byte_reader_uint(&data, 1);
		} else if (*l == 'P') {
			/* Only its size matters: 0x0f removes what it is relative to. */
			uint8_t encoding = (uint8_t)byte_reader_uint(&data, 1);
			byte_reader_pointer(&data, encoding & 0x0f, 0, 0);
		} else if (*l != 'S') {
			break; /* an unknown letter; the length of all data is known */
		}
	}
	return !data.bad;
}

static int parse_cie(struct cfi_reader *r, const struct cfi_section *t, uint64_t at,
		     struct cfa_cie *cie)
{
	struct record rec;
	if (!read_record(t, at, &rec) || !rec.is_cie || byte_reader_left(&rec.body) == 0)
		return -EBADMSG;

	struct byte_reader *b = &rec.body;
	uint64_t version = byte_reader_uint(b, 1);
	size_t room = MIN(byte_reader_left(b), (size_t)AUGMENTATION_MAX);
	const char *letters = (const char *)b->at;
	size_t letters_len = strnlen(letters, room);
	if (letters_len == room || (version != 1 && version != 3 && version != 4))
		return -EBADMSG;
	byte_reader_skip(b, letters_len + 1);
	*cie = (struct cfa_cie){.pointers = DW_EH_PE_absptr};
	if (version == 4 && byte_reader_uint(b, 2) != 8) /* address size 8, segment size 0 */
		return -EBADMSG;
	cie->code_align = byte_reader_uleb(b);
	cie->data_align = byte_reader_sleb(b);
	cie->ra = version == 1 ? byte_reader_uint(b, 1) : byte_reader_uleb(b);
	if (!read_augmentation(b, letters, cie) || b->bad)
		return -EBADMSG;
	cie->code = *b;
	return cfa_run_cie(cie, &r->budget);
}

static const struct cfa_cie *find_cie(struct cfi_reader *r, const struct cfi_section *t,
				      uint64_t at, int *ret_error)
{
	struct kept_cie *k = &r->cies[t->debug * CIES_KEPT + at * 31 / 16 % CIES_KEPT];
	if (at >= t->size) {
		*ret_error = -EBADMSG;
		return NULL;
	}
	if (k->at != at + 1) {
		k->error = parse_cie(r, t, at, &k->cie);
		k->at = at + 1;
	}
	*ret_error = k->error;
	return k->error ? NULL : &k->cie;
}

/* ---- functions ------------------------------------------------------------------------------ */

static int parse_fde(struct cfi_reader *r, const struct cfi_section *t, struct record *rec,
		     struct cfa_fde *ret)
{
	struct byte_reader *b = &rec->body;
	int error;

	ret->cie = find_cie(r, t, rec->cie, &error);
	if (!ret->cie)
		return error;
	uint64_t here = t->vaddr + (uint64_t)(b->at - t->data);
	ret->start = byte_reader_pointer(b, ret->cie->pointers, here, 0);
	uint64_t size = byte_reader_pointer(b, ret->cie->pointers & 0x0f, 0, 0);
	if (ret->cie->sized)
		byte_reader_skip(b, byte_reader_uleb(b));
	if (b->bad)
		return -EBADMSG;
	ret->end = size <= UINT64_MAX - ret->start ? ret->start + size : UINT64_MAX;
	ret->code = *b;
	ret->code_vaddr = t->vaddr + (uint64_t)(b->at - t->data);
	return 0;
}

static void find_texts(struct cfi_reader *r, const struct elf_file *e)
{
	for (uint32_t i = 0; i < e->segment_count && r->text_count < TEXTS_MAX; i++)
		if (e->segments[i].p_type == PT_LOAD && (e->segments[i].p_flags & PF_X))
			r->texts[r->text_count++] = &e->segments[i];
}

/* Cuts a function at the end of the executable segment it starts in; false: nothing is left. */
static bool cut_to_text(const struct cfi_reader *r, struct cfa_fde *f)
{
	for (unsigned i = 0; i < r->text_count; i++) {
		uint64_t from = r->texts[i]->p_vaddr, size = r->texts[i]->p_memsz;
		if (f->start < from || f->start - from >= size)
			continue;
		uint64_t room = MIN(size - (f->start - from), UINT64_MAX - f->start);
		f->end = f->start + MIN(MIN(f->end - f->start, room), (uint64_t)UINT32_MAX);
		return f->end > f->start;
	}
	return false;
}

static int add_fde(struct cfi_reader *r, const struct cfi_section *t, struct record *rec)
{
	struct cfa_fde f = {};
	int error = parse_fde(r, t, rec, &f);
	if (error == -EBADMSG)
		broken(r, t, rec->at, "malformed function record");
	if (error)
		return error == -EBADMSG ? 0 : error;
	if (!cut_to_text(r, &f)) {
		r->stats->ignored++;
		return 0;
	}
	if (r->fde_count == CFI_FDES_MAX) {
		r->stats->why = "too many functions";
		r->stats->where = t->offset + rec->at;
		return -EFBIG;
	}
	MEM_GROW(r->fdes, r->fde_count, r->fde_cap);
	r->fdes[r->fde_count++] = (struct fde){.start = f.start,
					       .size = (uint32_t)(f.end - f.start),
					       .at = rec->at & INT32_MAX,
					       .debug = t->debug};
	return 0;
}

static int list_fdes(struct cfi_reader *r, const struct cfi_section *t)
{
	struct record rec;

	for (uint64_t at = 0; at < t->size; at = (uint64_t)(rec.body.end - t->data)) {
		if (!read_record(t, at, &rec)) {
			broken(r, t, at, "a record extends past the end of its table");
			return 0;
		}
		bool last = rec.body.at == rec.body.end;
		if (last && t->to_terminator)
			return 0;
		if (last || rec.is_cie)
			continue;
		int error = add_fde(r, t, &rec);
		if (error)
			return error;
	}
	return 0;
}

/* Removes overlaps, so that at most one function covers an address. */
static void remove_overlaps(struct cfi_reader *r)
{
	uint32_t kept = 0;
	uint64_t described = 0; /* what .eh_frame covers ends here */

	sort_by_u64(r->fdes, r->fde_count, sizeof(*r->fdes));
	for (uint32_t i = 0; i < r->fde_count; i++) {
		struct fde f = r->fdes[i];
		struct fde *before = kept ? &r->fdes[kept - 1] : NULL;
		bool same = before && before->start == f.start;
		if ((same && before->debug <= f.debug) || (f.debug && f.start < described)) {
			r->stats->ignored++;
			continue;
		}
		if (same) {
			r->stats->ignored++;
			kept--;
		}
		if (kept && f.start - r->fdes[kept - 1].start < r->fdes[kept - 1].size)
			r->fdes[kept - 1].size = (uint32_t)(f.start - r->fdes[kept - 1].start);
		if (!f.debug)
			described = f.start + f.size;
		r->fdes[kept++] = f;
	}
	r->fde_count = kept;
	r->stats->functions = kept;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int put_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct cfi_reader *r = arg;

	if (start >= r->limit || memcmp(&rule, &r->last, sizeof(rule)) == 0)
		return 0;
	if (r->stats->rows == CFI_ROWS_MAX) {
		r->stats->why = "too many rows";
		return -EFBIG;
	}
	r->last = rule;
	r->stats->rows++;
	r->stats->other += rule.cfa == UNWIND_UNSUPPORTED;
	return r->row(r->arg, start, rule);
}

static int put_fde(struct cfi_reader *r, const struct fde *listed)
{
	const struct cfi_section *t = &r->tables[listed->debug];
	struct record rec;
	struct cfa_fde f;

	r->limit = listed->start + listed->size;
	if (listed->start == r->entry)
		return put_row(r, r->entry, (struct unwind_rule){.cfa = UNWIND_END});
	if (!read_record(t, listed->at, &rec))
		return -EBADMSG;
	int error = parse_fde(r, t, &rec, &f);
	if (error)
		return error;
	f.end = r->limit;
	error = cfa_run(&f, &r->budget, put_row, r);
	if (error != -EBADMSG)
		return error;
	broken(r, t, listed->at, "malformed CFI program");
	return 0;
}

static int put_all(struct cfi_reader *r)
{
	const struct unwind_rule unknown = {.cfa = UNWIND_UNKNOWN};

	for (uint32_t i = 0; i < r->fde_count; i++) {
		int error = put_fde(r, &r->fdes[i]);
		if (error)
			return error;
		uint64_t end = r->fdes[i].start + r->fdes[i].size;
		if (i + 1 < r->fde_count && r->fdes[i + 1].start == end)
			continue;
		r->limit = UINT64_MAX;
		error = put_row(r, end, unknown);
		if (error)
			return error;
	}
	return 0;
}

static int run(struct cfi_reader *r)
{
	for (unsigned i = 0; i < ARRAY_SIZE(r->tables); i++) {
		const struct cfi_section *t = &r->tables[i];
		/*
		 * An instruction has at least one byte and runs once; only CIEs that were dropped
		 * from the cache run again.
		 */
		r->budget += 1000000 + 8 * t->size;
		int error = list_fdes(r, t);
		if (error)
			return error;
	}
	remove_overlaps(r);
	return put_all(r);
}

/* Where a program begins. Linkers set that of a library to anything. */
static uint64_t find_entry(const struct elf_file *e)
{
	bool is_dynamic = false;

	for (uint32_t i = 0; i < e->segment_count; i++) {
		if (e->segments[i].p_type == PT_INTERP)
			return e->entry;
		is_dynamic |= e->segments[i].p_type == PT_DYNAMIC;
	}
	return is_dynamic ? 0 : e->entry;
}

int cfi_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats)
{
	struct cfi_reader r = {.stats = stats, .row = row, .arg = arg};

	*stats = (struct cfi_stats){};
	if (!ARCH_HAS_WALK || e->machine != ARCH_ELF_MACHINE || e->is_32_bit)
		return -ENOTSUP;
	find_texts(&r, e);
	r.entry = find_entry(e);
	int error = cfi_sections_read(e, CFI_TABLE_MAX, r.tables, &stats->why);
	if (error)
		return error;
	r.cies = mem_alloc_array(ARRAY_SIZE(r.tables) * CIES_KEPT, sizeof(*r.cies));
	error = run(&r);
	if (error == -E2BIG && !stats->why)
		stats->why = "its CFI takes too long to evaluate";
	free(r.cies);
	free(r.fdes);
	cfi_sections_done(r.tables);
	return error;
}
