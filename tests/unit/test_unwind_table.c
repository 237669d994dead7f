/* Rules, tables, and tables kept as bytes and in a folder. */
#include "unit/unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "unit/eh_elf.h"
#include "unwind/unwind_table_cache.h"
#include "unwind/unwind_table_file.h"

/* ---- rules ---------------------------------------------------------------------------------- */

static struct unwind_rule rule_no(int i)
{
	return (struct unwind_rule){.cfa = UNWIND_SP, .cfa_offset = i};
}

static void a_rule_has_one_number(void **state)
{
	(void)state;
	struct rules r;

	rules_init(&r);
	rules_begin_file(&r);
	assert_int_equal(rules_put(&r, (struct unwind_rule){.cfa = UNWIND_UNKNOWN}), RULES_UNKNOWN);
	assert_int_equal(rules_put(&r, (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED}),
			 RULES_UNSUPPORTED);
	assert_int_equal(rules_put(&r, rule_no(8)), 2);
	assert_int_equal(rules_put(&r, rule_no(16)), 3);
	assert_int_equal(rules_put(&r, rule_no(8)), 2);
	assert_int_equal(r.count, 4);
	assert_int_equal(r.all[3].cfa_offset, 16);
	rules_done(&r);
}

static void one_file_cannot_use_up_the_rules(void **state)
{
	(void)state;
	struct rules r;

	rules_init(&r);
	rules_begin_file(&r);
	for (int i = 0; i < 2 * RULES_PER_FILE; i++)
		assert_int_equal(rules_put(&r, rule_no(i)),
				 i < RULES_PER_FILE ? i + 2 : RULES_UNSUPPORTED);
	assert_int_equal(r.refused, RULES_PER_FILE);
	rules_begin_file(&r);
	assert_int_equal(rules_put(&r, rule_no(-1)), RULES_PER_FILE + 2);

	for (int i = 0; i < 10; i++) {
		rules_begin_file(&r);
		for (int j = 0; j < RULES_PER_FILE; j++)
			rules_put(&r, rule_no((i + 2) * RULES_PER_FILE + j));
	}
	assert_int_equal(r.count, UNWIND_RULES_MAX);
	assert_int_equal(rules_put(&r, rule_no(-2)), RULES_UNSUPPORTED);
	assert_int_equal(rules_put(&r, rule_no(-1)), RULES_PER_FILE + 2);
	rules_done(&r);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* A table whose only CIE says rsp + 8, with functions added one by one. */
struct table {
	uint8_t data[1 << 12];
	size_t len;
};

static void put(struct table *t, const void *what, size_t len)
{
	assert_true(t->len + len <= sizeof(t->data));
	memcpy(t->data + t->len, what, len);
	t->len += len;
}

static void begin(struct table *t)
{
	static const uint8_t cie[] = {16, 0,    0,  0,  0, 0, 0,    0, 1, 0,
				      1,  0x78, 16, 12, 7, 8, 0x90, 1, 0, 0};

	t->len = 0;
	put(t, cie, sizeof(cie));
}

/* A function whose CFA is rsp + offset */
static void add(struct table *t, uint64_t start, uint64_t size, uint8_t offset)
{
	uint32_t head[2] = {24, (uint32_t)t->len + 4};
	uint8_t code[4] = {0x0e, offset};

	put(t, head, sizeof(head));
	put(t, &start, sizeof(start));
	put(t, &size, sizeof(size));
	put(t, code, sizeof(code));
}

static int build(const struct table *t, struct rules *rules, struct unwind_table **ret)
{
	struct elf_file e;
	size_t len;
	CLEANUP(freep) struct tiny_elf *elf = eh_elf_new(t->data, t->len, NULL, 0, &len);

	assert_int_equal(elf_file_init_mem(&e, elf, len), 0);
	int r = unwind_table_build(&e, rules, ret, NULL);
	elf_file_done(&e);
	return r;
}

static int offset_at(const struct unwind_table *table, const struct rules *rules, uint64_t at)
{
	const struct unwind_rule *rule = &rules->all[unwind_table_find(table, at)];

	return rule->cfa == UNWIND_UNKNOWN ? -1 : rule->cfa_offset;
}

static void pages_begin_with_what_holds(void **state)
{
	(void)state;
	struct table t;
	struct rules rules;
	struct unwind_table *table;

	/* Inside a page; over three pages; exactly one page; and the end of the last one. */
	rules_init(&rules);
	begin(&t);
	add(&t, 0x20010, 0x10, 1);
	add(&t, 0x2fff0, 0x20020, 2);
	add(&t, 0x60000, 0x10000, 3);
	add(&t, 0x9fff0, 0x10, 4);
	assert_int_equal(build(&t, &rules, &table), 0);
	assert_int_equal(table->base_page, 2);
	assert_int_equal(table->page_count, 8);
	static const struct {
		uint64_t at;
		int offset;
	} points[] = {
		{0, -1},      {0x1ffff, -1}, {0x20000, -1}, {0x2000f, -1}, {0x20010, 1},
		{0x2001f, 1}, {0x20020, -1}, {0x2ffef, -1}, {0x2fff0, 2},  {0x30000, 2},
		{0x3ffff, 2}, {0x40000, 2},  {0x5000f, 2},  {0x50010, -1}, {0x5ffff, -1},
		{0x60000, 3}, {0x6ffff, 3},  {0x70000, -1}, {0x8ffff, -1}, {0x9ffef, -1},
		{0x9fff0, 4}, {0x9ffff, 4},  {0xa0000, -1}, {~0ull, -1},   {1ull << 63, -1},
	};
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		assert_int_equal(offset_at(table, &rules, points[i].at), points[i].offset);

	uint32_t next = 0;
	for (uint32_t p = 0; p < table->page_count; p++) {
		assert_int_equal(table->pages[p].first, next);
		assert_int_equal(table->rows[next].low, 0);
		next += table->pages[p].count;
	}
	assert_int_equal(next, table->row_count);
	unwind_table_free(table);
	rules_done(&rules);
}

static void a_table_needs_functions_within_reach(void **state)
{
	(void)state;
	struct table t;
	struct rules rules;
	struct unwind_table *table;
	struct elf_file e;
	size_t len;

	rules_init(&rules);
	begin(&t);
	assert_int_equal(build(&t, &rules, &table), -ENOENT);
	add(&t, EH_TEXT, 0x10, 1);
	add(&t, EH_TEXT + ((uint64_t)UNWIND_TABLE_PAGES_MAX << UNWIND_PAGE_BITS), 0x10, 1);
	CLEANUP(freep) struct tiny_elf *elf = eh_elf_new(t.data, t.len, NULL, 0, &len);
	elf->load.p_memsz = 1ull << 46;
	assert_int_equal(elf_file_init_mem(&e, elf, len), 0);
	assert_int_equal(unwind_table_build(&e, &rules, &table, NULL), -ERANGE);
	elf_file_done(&e);
	rules_done(&rules);
}

/* ---- as bytes ------------------------------------------------------------------------------- */

static struct unwind_table *some_table(struct rules *rules)
{
	struct table t;
	struct unwind_table *table;

	begin(&t);
	add(&t, 0x20010, 0x10, 1);
	add(&t, 0x2fff0, 0x20020, 2);
	assert_int_equal(build(&t, rules, &table), 0);
	return table;
}

static void a_table_survives_as_bytes(void **state)
{
	(void)state;
	struct rules a, b;
	struct unwind_table *table, *again;
	size_t len;

	rules_init(&a);
	rules_init(&b);
	rules_begin_file(&b);
	rules_put(&b, rule_no(77)); /* other numbers than in a */
	table = some_table(&a);
	CLEANUP(freep)
	char *data =
		unwind_table_file_encode(table, &a, &(struct unwind_table_file_origin){}, &len);
	assert_int_equal(unwind_table_file_decode(data, len, &b, &again), 0);
	for (uint64_t at = 0x1f000; at < 0x60000; at++)
		assert_int_equal(offset_at(table, &a, at), offset_at(again, &b, at));
	assert_int_equal(again->row_count, table->row_count);
	assert_int_equal(again->stats.functions, 2);

	/* Any damage is found by the sum; what is meant to deceive it, by looking. */
	unwind_table_free(TAKE_PTR(again));
	for (size_t i = 0; i < len; i++) {
		data[i] ^= 0x40;
		assert_int_equal(unwind_table_file_decode(data, len, &b, &again), -EBADMSG);
		data[i] ^= 0x40;
		assert_int_equal(unwind_table_file_decode(data, i, &b, &again), -EBADMSG);
	}
	struct unwind_table_file_head *h = (void *)data;
	struct unwind_row *rows = (void *)(data + len - table->row_count * sizeof(*rows));
	rows[table->row_count - 1].rule = (uint16_t)h->rule_count;
	h->checksum = unwind_table_file_checksum(data, len);
	assert_int_equal(unwind_table_file_decode(data, len, &b, &again), -EBADMSG);
	rows[table->row_count - 1].rule = 0;
	rows[0].low = 1;
	h->checksum = unwind_table_file_checksum(data, len);
	assert_int_equal(unwind_table_file_decode(data, len, &b, &again), -EBADMSG);
	rows[0].low = 0;
	h->checksum = unwind_table_file_checksum(data, len);
	assert_int_equal(unwind_table_file_decode(data, len, &b, &again), 0);

	unwind_table_free(table);
	unwind_table_free(again);
	rules_done(&a);
	rules_done(&b);
}

/* ---- in a folder ---------------------------------------------------------------------------- */

struct folder {
	char path[64];
	struct unwind_table_cache cache;
	struct rules rules;
};

static void open_folder(struct folder *f, uint64_t max)
{
	snprintf(f->path, sizeof(f->path), "/tmp/smolder-test-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	assert_int_equal(unwind_table_cache_init(&f->cache, f->path, max), 0);
	rules_init(&f->rules);
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *ftw)
{
	(void)st, (void)what, (void)ftw;
	return remove(path);
}

static void close_folder(struct folder *f)
{
	unwind_table_cache_done(&f->cache);
	rules_done(&f->rules);
	nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The table of a file through the cache; its rows summed up. */
static uint64_t get(struct folder *f, const struct elf_file *e)
{
	struct unwind_table *table;
	uint64_t sum = 0;

	assert_int_equal(unwind_table_cache_get(&f->cache, e, &f->rules, &table, NULL), 0);
	for (uint32_t i = 0; i < table->row_count; i++)
		sum = sum * 31 + table->rows[i].low * 7u + table->rows[i].rule;
	unwind_table_free(table);
	return sum;
}

static void open_self(struct elf_file *e)
{
	assert_int_equal(elf_file_init(e, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 0);
}

static void close_elf(struct elf_file *e)
{
	if (e->fd >= 0)
		close(e->fd);
	elf_file_done(e);
}

static char *only_file(const struct folder *f, const struct elf_file *e)
{
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t len = elf_file_build_id(e, id);
	char hex[64] = "";

	for (size_t i = 0; i < len; i++)
		sprintf(hex + 2 * i, "%02x", id[i]);
	return mem_printf("%s/%s-%d.rows", f->path, hex, UNWIND_TABLE_FILE_VERSION);
}

static void a_table_is_built_once(void **state)
{
	(void)state;
	struct folder f = {};
	struct elf_file e;

	open_folder(&f, 1 << 20);
	open_self(&e);
	uint64_t sum = get(&f, &e);
	assert_int_equal(f.cache.stats.stored, 1);
	assert_int_equal(get(&f, &e), sum);
	assert_int_equal(f.cache.stats.built, 1);
	assert_int_equal(f.cache.stats.loaded, 1);

	/* After a restart, too; and damage only costs time. */
	unwind_table_cache_done(&f.cache);
	assert_int_equal(unwind_table_cache_init(&f.cache, f.path, 1 << 20), 0);
	assert_int_equal(get(&f, &e), sum);
	assert_int_equal(f.cache.stats.loaded, 1);
	CLEANUP(freep) char *path = only_file(&f, &e);
	assert_int_equal(truncate(path, 1000), 0);
	assert_int_equal(get(&f, &e), sum);
	assert_int_equal(f.cache.stats.refused, 1);
	assert_int_equal(get(&f, &e), sum);
	assert_int_equal(f.cache.stats.loaded, 2);
	close_elf(&e);
	close_folder(&f);
}

/* The same program but for one byte of its table, under the same build id. */
static void a_build_id_is_not_believed(void **state)
{
	(void)state;
	struct folder f = {};
	struct elf_file e, forged;

	open_folder(&f, 1 << 20);
	open_self(&e);
	CLEANUP(freep) uint8_t *copy = mem_alloc(e.size);
	assert_int_equal(elf_file_read(&e, copy, e.size, 0), 0);
	const Elf64_Shdr *table = elf_file_section(&e, ".eh_frame");
	copy[table->sh_offset + table->sh_size / 2] ^= 1;
	assert_int_equal(elf_file_init_mem(&forged, copy, e.size), 0);
	get(&f, &forged);
	assert_int_equal(f.cache.stats.stored, 1);
	get(&f, &e);
	assert_int_equal(f.cache.stats.refused, 1);
	assert_int_equal(f.cache.stats.built, 2);
	close_elf(&forged);
	close_elf(&e);
	close_folder(&f);
}

static void the_folder_stays_small(void **state)
{
	(void)state;
	struct folder f = {};
	struct elf_file e;
	struct stat st;

	open_folder(&f, 1 << 20);
	open_self(&e);
	get(&f, &e);
	CLEANUP(freep) char *mine = only_file(&f, &e);
	CLEANUP(freep) char *old = mem_printf("%s/00.rows", f.path);
	CLEANUP(freep) char *alien = mem_printf("%s/README", f.path);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? alien : old;
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
		assert_int_equal(ftruncate(fd, 1 << 20), 0);
		assert_int_equal(futimens(fd, then), 0);
		close(fd);
	}
	unwind_table_cache_done(&f.cache);
	assert_int_equal(unwind_table_cache_init(&f.cache, f.path, 1 << 20), 0);
	assert_int_equal(f.cache.stats.removed, 1);
	assert_int_equal(stat(mine, &st), 0);
	assert_int_equal(stat(alien, &st), 0);
	assert_int_equal(stat(old, &st), -1);
	close_elf(&e);
	close_folder(&f);
}

static void a_folder_of_others_is_not_used(void **state)
{
	(void)state;
	struct folder f = {};
	struct elf_file e;

	open_folder(&f, 1 << 20);
	unwind_table_cache_done(&f.cache);
	assert_int_equal(chmod(f.path, 0777), 0);
	assert_int_equal(unwind_table_cache_init(&f.cache, f.path, 1 << 20), -EPERM);
	open_self(&e);
	get(&f, &e);
	assert_int_equal(f.cache.stats.built, 1);
	assert_int_equal(f.cache.stats.stored, 0);
	assert_int_equal(unwind_table_cache_init(&f.cache, "/nowhere/at/all", 1 << 20), -ENOENT);
	close_elf(&e);
	close_folder(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_has_one_number),
		cmocka_unit_test(one_file_cannot_use_up_the_rules),
		cmocka_unit_test(pages_begin_with_what_holds),
		cmocka_unit_test(a_table_needs_functions_within_reach),
		cmocka_unit_test(a_table_survives_as_bytes),
		cmocka_unit_test(a_table_is_built_once),
		cmocka_unit_test(a_build_id_is_not_believed),
		cmocka_unit_test(the_folder_stays_small),
		cmocka_unit_test(a_folder_of_others_is_not_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
