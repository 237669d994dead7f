#include "symbol/debuginfo.h"

#include <dwarf.h>
#include <errno.h>
#include <elfutils/libdw.h>

#include "base/mem.h"
#include "base/sort.h"

/*
 * Addresses are found in two steps, each a binary search: the unit by the ranges of all units (not
 * by .debug_aranges, which clang and Go do not write), and in it the function. The functions of a
 * unit are listed, and its line table decoded by libdw, when an address in it is first asked for.
 */
#define WORK_MAX      (64u << 20) /* DIEs and ranges visited per file; some 4 s */
#define UNITS_MAX     (1u << 20)
#define SPANS_MAX     (4u << 20) /* of a list */
#define NESTING_MAX   48 /* of namespaces and classes around a function, and of scopes in it */
#define ORIGINS_MAX   8  /* links from an inlined instance to its abstract origin */
#define OVERLAPS_MAX  64 /* spans before an address that are checked for covering it */
#define LINE_UNIT_MAX (4u << 20) /* bytes of a line program: libdw uses 100 times as much */
#define LINE_BYTES    48         /* that libdw keeps per line */

struct span {
	uint64_t start, end;
	uint64_t what; /* index of a unit, or offset of a function's DIE */
};

struct spans {
	struct span *list;
	uint32_t count, cap;
};

struct unit {
	Dwarf_Off die;
	bool listed, has_lines;
	struct spans functions;
};

struct debuginfo {
	struct debug_sections main_sections, alt_sections;
	Elf *elf, *alt_elf;
	Dwarf *dwarf, *alt;
	struct unit *units;
	uint32_t unit_count, unit_cap;
	struct spans by_address;
	size_t bytes;
	uint32_t work_left;
};

/* Takes one step from the budget; false if it is used up. */
static bool work(struct debuginfo *d)
{
	if (d->work_left == 0)
		return false;
	d->work_left--;
	return true;
}

/* ---- spans ---------------------------------------------------------------------------------- */

static void spans_add(struct spans *s, uint64_t start, uint64_t end, uint64_t what)
{
	if (start >= end || s->count == SPANS_MAX)
		return;
	MEM_GROW(s->list, s->count, s->cap);
	s->list[s->count++] = (struct span){start, end, what};
}

/* Of the spans that contain the address, the one that starts last: dead code at 0 may overlap. */
static const struct span *spans_find(const struct spans *s, uint64_t vaddr)
{
	uint32_t low = 0, high = s->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (s->list[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint32_t i = 0; i < OVERLAPS_MAX && i < low; i++)
		if (vaddr < s->list[low - 1 - i].end)
			return &s->list[low - 1 - i];
	return NULL;
}

/* ---- DIEs ----------------------------------------------------------------------------------- */

struct ranges { /* of a DIE, one after the other */
	Dwarf_Die *die;
	ptrdiff_t next;
	Dwarf_Addr base, start, end;
};

static bool next_range(struct debuginfo *d, struct ranges *r)
{
	if (!work(d))
		return false;
	r->next = dwarf_ranges(r->die, r->next, &r->base, &r->start, &r->end);
	return r->next > 0;
}

static bool has_address(struct debuginfo *d, Dwarf_Die *die, uint64_t vaddr)
{
	for (struct ranges r = {.die = die}; next_range(d, &r);)
		if (vaddr >= r.start && vaddr < r.end)
			return true;
	return false;
}

/* The DIE's first child. */
static bool first_child(struct debuginfo *d, Dwarf_Die *die, Dwarf_Die *ret)
{
	return work(d) && dwarf_child(die, ret) == 0;
}

/* The next sibling, in place; a link backwards is refused, since it would loop. */
static bool next_sibling(struct debuginfo *d, Dwarf_Die *die)
{
	Dwarf_Die next;

	if (!work(d) || dwarf_siblingof(die, &next) != 0 ||
	    dwarf_dieoffset(&next) <= dwarf_dieoffset(die))
		return false;
	*die = next;
	return true;
}

/* Not dwarf_attr_integrate(): that opens the files which split DWARF names. */
static bool find_attribute(const Dwarf_Die *of, unsigned name, Dwarf_Attribute *ret)
{
	Dwarf_Die die = *of;
	Dwarf_Attribute origin;

	for (int i = 0; i < ORIGINS_MAX; i++) {
		if (dwarf_attr(&die, name, ret))
			return true;
		if (!dwarf_attr(&die, DW_AT_abstract_origin, &origin) &&
		    !dwarf_attr(&die, DW_AT_specification, &origin))
			return false;
		if (!dwarf_formref_die(&origin, &die))
			return false;
	}
	return false;
}

static const char *find_string(const Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;

	return find_attribute(die, name, &a) ? dwarf_formstring(&a) : NULL;
}

static uint64_t find_number(const Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;
	Dwarf_Word n;

	return find_attribute(die, name, &a) && dwarf_formudata(&a, &n) == 0 ? n : 0;
}

static uint64_t own_number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;
	Dwarf_Word n;

	return dwarf_attr(die, name, &a) && dwarf_formudata(&a, &n) == 0 ? n : 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void add_unit(struct debuginfo *d, Dwarf_Off offset)
{
	Dwarf_Die die;
	uint32_t before = d->by_address.count;

	if (!dwarf_offdie(d->dwarf, offset, &die))
		return;
	for (struct ranges r = {.die = &die}; next_range(d, &r);)
		spans_add(&d->by_address, r.start, r.end, d->unit_count);
	if (d->by_address.count == before)
		return;
	MEM_GROW(d->units, d->unit_count, d->unit_cap);
	d->units[d->unit_count++] = (struct unit){.die = offset};
}

static void list_units(struct debuginfo *d)
{
	Dwarf_Off at = 0, next;
	size_t header;

	while (d->unit_count < UNITS_MAX && work(d) &&
	       dwarf_nextcu(d->dwarf, at, &next, &header, NULL, NULL, NULL) == 0 && next > at) {
		add_unit(d, at + header);
		at = next;
	}
	sort_by_u64(d->by_address.list, d->by_address.count, sizeof(struct span));
	d->bytes += d->unit_cap * sizeof(*d->units) + d->by_address.cap * sizeof(struct span);
}

static int open_dwarf(struct debug_sections *sections, Elf **ret_elf, Dwarf **ret)
{
	elf_version(EV_CURRENT);
	*ret_elf = elf_memory((char *)sections->data, sections->size);
	if (*ret_elf)
		*ret = dwarf_begin_elf(*ret_elf, DWARF_C_READ, NULL);
	return *ret_elf && *ret ? 0 : -EBADMSG;
}

int debuginfo_open(struct debug_sections *main, struct debug_sections *alt, struct debuginfo **ret)
{
	struct debuginfo *d = mem_alloc(sizeof(*d));

	d->main_sections = *main;
	d->alt_sections = *alt;
	*main = *alt = (struct debug_sections){};
	d->bytes = sizeof(*d) + d->main_sections.size + d->alt_sections.size;
	d->work_left = WORK_MAX;
	if (open_dwarf(&d->main_sections, &d->elf, &d->dwarf) < 0) {
		debuginfo_free(d);
		return -EBADMSG;
	}
	if (d->alt_sections.data && open_dwarf(&d->alt_sections, &d->alt_elf, &d->alt) == 0)
		dwarf_setalt(d->dwarf, d->alt);
	list_units(d);
	*ret = d;
	return 0;
}

void debuginfo_free(struct debuginfo *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->unit_count; i++)
		free(d->units[i].functions.list);
	free(d->units);
	free(d->by_address.list);
	if (d->dwarf)
		dwarf_end(d->dwarf);
	if (d->alt)
		dwarf_end(d->alt);
	if (d->elf)
		elf_end(d->elf);
	if (d->alt_elf)
		elf_end(d->alt_elf);
	debug_sections_done(&d->main_sections);
	debug_sections_done(&d->alt_sections);
	free(d);
}

size_t debuginfo_bytes(const struct debuginfo *d)
{
	return d->bytes;
}

bool debuginfo_exhausted(const struct debuginfo *d)
{
	return d->work_left == 0;
}

/* ---- a unit --------------------------------------------------------------------------------- */

/* DIEs that may contain functions, besides the unit itself. */
static bool holds_functions(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
		return true;
	default:
		return false;
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than NESTING_MAX, whatever the file says. */
static void list_functions(struct debuginfo *d, struct unit *u, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth == NESTING_MAX || !first_child(d, parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		if (tag == DW_TAG_subprogram)
			for (struct ranges r = {.die = &die}; next_range(d, &r);)
				spans_add(&u->functions, r.start, r.end, dwarf_dieoffset(&die));
		else if (holds_functions(tag))
			list_functions(d, u, &die, depth + 1);
	} while (next_sibling(d, &die));
}

/* Whether the line program of a unit is of a size that libdw may decode. */
static bool lines_are_bounded(const struct debuginfo *d, Dwarf_Die *unit)
{
	const struct debug_sections *m = &d->main_sections;
	Dwarf_Attribute a;
	Dwarf_Word at;
	uint32_t size; /* or the mark of a 64-bit size, which is over the limit as well */
	if (!dwarf_attr(unit, DW_AT_stmt_list, &a) || dwarf_formudata(&a, &at) != 0 ||
	    at >= m->line_size || m->line_size - at < sizeof(size))
		return false;

	memcpy(&size, m->data + m->line + at, sizeof(size));
	return size <= LINE_UNIT_MAX;
}

static void list_unit(struct debuginfo *d, struct unit *u, Dwarf_Die *die)
{
	Dwarf_Lines *lines;
	size_t count;

	u->listed = true;
	list_functions(d, u, die, 0);
	sort_by_u64(u->functions.list, u->functions.count, sizeof(struct span));
	d->bytes += u->functions.cap * sizeof(struct span);
	u->has_lines = lines_are_bounded(d, die) && dwarf_getsrclines(die, &lines, &count) == 0;
	if (u->has_lines)
		d->bytes += count * LINE_BYTES;
}

/* ---- an address ----------------------------------------------------------------------------- */

static bool holds_code(int tag)
{
	switch (tag) {
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		return true;
	default:
		return false;
	}
}

/* The child of a scope that holds the address. */
static bool inner_scope(struct debuginfo *d, Dwarf_Die *scope, uint64_t vaddr, Dwarf_Die *ret)
{
	if (!first_child(d, scope, ret))
		return false;
	do
		if (holds_code(dwarf_tag(ret)) && has_address(d, ret, vaddr))
			return true;
	while (next_sibling(d, ret));
	return false;
}

static void name_frame(const Dwarf_Die *die, struct debuginfo_frame *f)
{
	f->linkage_name = find_string(die, DW_AT_linkage_name);
	if (!f->linkage_name)
		f->linkage_name = find_string(die, DW_AT_MIPS_linkage_name);
	f->name = find_string(die, DW_AT_name);
	f->start = (uint32_t)find_number(die, DW_AT_decl_line);
}

/* Where an inlined function was called in the enclosing one. */
static void place_call(const struct unit *u, Dwarf_Die *unit, Dwarf_Die *inlined,
		       struct debuginfo_frame *outer)
{
	Dwarf_Files *files;
	size_t count;
	uint64_t file = own_number(inlined, DW_AT_call_file);

	outer->line = (uint32_t)own_number(inlined, DW_AT_call_line);
	if (u->has_lines && dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count)
		outer->source = dwarf_filesrc(files, file, NULL, NULL);
}

static void place_leaf(const struct unit *u, Dwarf_Die *unit, uint64_t vaddr,
		       struct debuginfo_frame *f)
{
	Dwarf_Line *line = u->has_lines ? dwarf_getsrc_die(unit, vaddr) : NULL;
	int n;

	if (!line || dwarf_lineno(line, &n) != 0)
		return;
	f->line = n > 0 ? (uint32_t)n : 0;
	f->source = dwarf_linesrc(line, NULL, NULL);
}

/* Go before 1.20 does not declare lines of functions; but the first instruction has it. */
static void place_start(const struct unit *u, Dwarf_Die *unit, uint64_t entry,
			struct debuginfo_frame *f)
{
	Dwarf_Line *line = u->has_lines && !f->start ? dwarf_getsrc_die(unit, entry) : NULL;
	int n;

	if (line && dwarf_lineno(line, &n) == 0 && n > 0)
		f->start = (uint32_t)n;
}

static void reverse(struct debuginfo_frame *f, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct debuginfo_frame swap = f[i];
		f[i] = f[count - 1 - i];
		f[count - 1 - i] = swap;
	}
}

size_t debuginfo_find(struct debuginfo *d, uint64_t vaddr,
		      struct debuginfo_frame ret[static DEBUGINFO_DEPTH])
{
	const struct span *span = spans_find(&d->by_address, vaddr);
	Dwarf_Die unit, scope, inner;
	if (!span || d->work_left == 0)
		return 0;

	struct unit *u = &d->units[span->what];
	if (!dwarf_offdie(d->dwarf, u->die, &unit))
		return 0;
	if (!u->listed)
		list_unit(d, u, &unit);
	size_t count = 1;
	ret[0] = (struct debuginfo_frame){};
	span = spans_find(&u->functions, vaddr);
	if (span && dwarf_offdie(d->dwarf, span->what, &scope)) {
		name_frame(&scope, &ret[0]);
		place_start(u, &unit, span->start, &ret[0]);
		for (int depth = 0; depth < NESTING_MAX * 2 && count < DEBUGINFO_DEPTH &&
				    inner_scope(d, &scope, vaddr, &inner);
		     depth++) {
			scope = inner;
			if (dwarf_tag(&scope) != DW_TAG_inlined_subroutine)
				continue;
			place_call(u, &unit, &scope, &ret[count - 1]);
			ret[count] = (struct debuginfo_frame){};
			name_frame(&scope, &ret[count++]);
		}
	}
	if (d->work_left == 0)
		return 0;
	if (count < DEBUGINFO_DEPTH) /* otherwise the line may be that of a call that was cut off */
		place_leaf(u, &unit, vaddr, &ret[count - 1]);
	if (count == 1 && !ret[0].name && !ret[0].linkage_name && !ret[0].line)
		return 0;
	Dwarf_Attribute a;
	const char *directory = dwarf_attr(&unit, DW_AT_comp_dir, &a) ? dwarf_formstring(&a) : NULL;
	for (size_t i = 0; i < count; i++)
		if (ret[i].source && ret[i].source[0] != '/')
			ret[i].directory = directory;
	reverse(ret, count);
	return count;
}
