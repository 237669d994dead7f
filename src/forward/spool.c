#include "forward/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/compressor.h"
#include "base/file.h"
#include "base/mem.h"
#include "forward/translate.h"

#define BLOCK         4096u /* files take whole ones */
#define LEVEL         1
#define UNPACK_MAX    (64u << 20)
#define SPAN_ROWS_MAX (64u << 10) /* of a window */
#define NAME_LEN      sizeof("0123456789abcdef.window")

struct head { /* of a file; then one zstd frame */
	char magic[8];
	struct ledger_id id;
	uint64_t samples, start_ms;
	uint64_t body_len;
	char type[WINDOW_TYPE_MAX];
	uint64_t hash; /* of all before it */
};

struct record {
	uint64_t number, bytes; /* that it takes */
	uint64_t samples;       /* that are left */
	uint64_t through;       /* series that are done */
	uint64_t start_ms;
	struct ledger_id id;
	char type[WINDOW_TYPE_MAX];
	struct pack in_memory; /* head and body; empty: on disk */
	bool out;              /* handed out */
};

struct spool {
	struct spool_options options;
	struct ledger ledger;
	struct record *records; /* in order of their numbers */
	uint32_t first, end, cap;
	uint64_t next; /* number */
	uint64_t bytes, memory_bytes, samples;
	struct ledger_id newest;
	struct compressor compressor;
	int error;
};

static const char magic[8] = "SMSPOOL1";

static char *name_of(uint64_t number, char ret[static NAME_LEN])
{
	snprintf(ret, NAME_LEN, "%016" PRIx64 ".window", number);
	return ret;
}

static uint64_t hash_of(const struct head *h)
{
	return XXH3_64bits(h, offsetof(struct head, hash));
}

static uint64_t blocks(uint64_t len)
{
	return (len + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- the list ------------------------------------------------------------------------------ */

static void add(struct spool *s, const struct record *r)
{
	if (s->end == s->cap && s->first > s->cap / 2) {
		memmove(s->records, s->records + s->first,
			(s->end - s->first) * sizeof(*s->records));
		s->end -= s->first;
		s->first = 0;
	}
	MEM_GROW(s->records, s->end, s->cap);
	s->records[s->end++] = *r;
	*(r->in_memory.len ? &s->memory_bytes : &s->bytes) += r->bytes;
	s->samples += r->samples;
	s->next = MAX(s->next, r->number + 1);
}

static struct record *find(struct spool *s, uint64_t number)
{
	for (uint32_t i = s->first; i < s->end; i++)
		if (s->records[i].number == number)
			return &s->records[i];
	return NULL;
}

/* Takes a record out whose end the ledger has. */
static void drop(struct spool *s, struct record *r)
{
	uint32_t at = (uint32_t)(r - s->records);
	char name[NAME_LEN];

	*(r->in_memory.len ? &s->memory_bytes : &s->bytes) -= r->bytes;
	s->samples -= r->samples;
	if (!r->in_memory.len)
		unlinkat(s->options.dir, name_of(r->number, name), 0);
	pack_done(&r->in_memory);
	memmove(s->records + s->first + 1, s->records + s->first,
		(at - s->first) * sizeof(*s->records));
	s->first++;
}

/* Says in the ledger how a record ended, then deletes it. */
static void end(struct spool *s, struct record *r, uint64_t *where, uint64_t *records)
{
	struct ledger_page *p = &s->ledger.now;

	*where += r->samples;
	++*records;
	p->settled = r->number;
	if (r->number >= p->newest) {
		p->newest = r->number;
		p->id = r->id;
	}
	ledger_save(&s->ledger);
	drop(s, r);
}

static void lose(struct spool *s, struct record *r, enum ledger_lost why)
{
	struct ledger_page *p = &s->ledger.now;

	if (r->samples && *r->type) {
		struct ledger_account *a = ledger_account(&s->ledger, r->id.instance, r->type);
		*(why == LEDGER_LOST_REFUSED ? &a->refused : &a->dropped) += r->samples;
	}
	end(s, r, &p->lost[why], &p->lost_records);
}

/* The oldest that nobody has at hand; NULL: there is none. */
static struct record *oldest(struct spool *s, bool in_memory)
{
	for (uint32_t i = s->first; i < s->end; i++)
		if (!s->records[i].out && !s->records[i].in_memory.len == !in_memory)
			return &s->records[i];
	return NULL;
}

/* ---- what a process before us has left ----------------------------------------------------- */

static int read_head(struct spool *s, int fd, struct head *ret)
{
	struct stat st;

	if (file_pread(fd, ret, sizeof(*ret), 0) != 0 ||
	    memcmp(ret->magic, magic, sizeof(magic)) != 0 || ret->hash != hash_of(ret) ||
	    memchr(ret->type, 0, sizeof(ret->type)) == NULL || fstat(fd, &st) != 0 ||
	    (uint64_t)st.st_size != sizeof(*ret) + ret->body_len)
		return -EBADMSG;
	(void)s;
	return 0;
}

static void find_file(struct spool *s, const char *file)
{
	struct ledger_page *p = &s->ledger.now;
	struct record r = {};
	char name[NAME_LEN];
	struct head h = {};

	if (strlen(file) != NAME_LEN - 1 || sscanf(file, "%16" SCNx64, &r.number) != 1 ||
	    strcmp(file, name_of(r.number, name)) != 0) {
		if (strncmp(file, "new.", 4) == 0)
			unlinkat(s->options.dir, file, 0); /* a write that was cut short */
		return;
	}
	CLEANUP(fd_closep) int fd = openat(s->options.dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int err = fd < 0 ? -errno : read_head(s, fd, &h);
	if (err || r.number == p->settled) {
		p->lost_records += err != 0;
		unlinkat(s->options.dir, file, 0);
		return;
	}
	r.id = h.id;
	r.samples = h.samples;
	r.start_ms = h.start_ms;
	r.bytes = blocks(sizeof(h) + h.body_len);
	snprintf(r.type, sizeof(r.type), "%s", h.type);
	if (p->under_way == r.number) {
		r.samples -= MIN(r.samples, p->through_samples);
		r.through = p->through;
	}
	add(s, &r);
}

static int order(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static int find_files(struct spool *s)
{
	int again = openat(s->options.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (!d) {
		int err = -errno;
		fd_closep(&again);
		return err;
	}
	for (struct dirent *e; (e = readdir(d));)
		find_file(s, e->d_name);
	closedir(d);
	qsort(s->records, s->end, sizeof(*s->records), order);
	s->next = MAX(s->next, MAX(s->ledger.now.newest, s->ledger.now.settled) + 1);
	s->newest = s->ledger.now.id;
	if (s->end && s->records[s->end - 1].number > s->ledger.now.newest)
		s->newest = s->records[s->end - 1].id;
	return 0;
}

int spool_open(const struct spool_options *o, struct spool **ret)
{
	struct spool *s = mem_alloc(sizeof(*s));
	int err = 0;

	s->options = *o;
	s->next = 1;
	s->ledger.fd = -1;
	if (o->dir >= 0 && flock(o->dir, LOCK_EX | LOCK_NB) != 0)
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	err = err ? err : ledger_open(&s->ledger, o->dir);
	if (!err && o->dir >= 0)
		err = find_files(s);
	if (err) {
		spool_close(s);
		return err;
	}
	*ret = s;
	return 0;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	for (uint32_t i = s->first; i < s->end; i++)
		pack_done(&s->records[i].in_memory);
	free(s->records);
	ledger_close(&s->ledger);
	compressor_done(&s->compressor);
	fd_closep(&s->options.dir);
	free(s);
}

/* ---- in ------------------------------------------------------------------------------------ */

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Under a name of its own first: a record is there whole or not at all. */
static int write_file(const struct spool *s, uint64_t number, const struct pack *bytes)
{
	char name[NAME_LEN], temp[NAME_LEN + 4];
	int dir = s->options.dir;

	name_of(number, name);
	snprintf(temp, sizeof(temp), "new.%s", name);
	CLEANUP(fd_closep)
	int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int err = write_all(fd, bytes->bytes, bytes->len);
	if (!err && renameat(dir, temp, dir, name) != 0)
		err = -errno;
	if (err)
		unlinkat(dir, temp, 0);
	return err;
}

/* On disk, at the price of the oldest. */
static int put_on_disk(struct spool *s, struct record *r, const struct pack *bytes)
{
	struct record *gone;

	r->bytes = blocks(bytes->len);
	if (s->options.dir < 0 || r->bytes > s->options.max_bytes)
		return -ENOSPC;
	while (s->bytes + r->bytes > s->options.max_bytes && (gone = oldest(s, false)))
		lose(s, gone, LEDGER_LOST_OLD);
	do
		s->error = write_file(s, r->number, bytes);
	while ((s->error == -ENOSPC || s->error == -EDQUOT) && (gone = oldest(s, false)) &&
	       (lose(s, gone, LEDGER_LOST_OLD), true));
	return s->error;
}

/* Where there is no disk at all the oldest make room; else the disk may have some soon. */
static int put_in_memory(struct spool *s, struct record *r, struct pack *bytes)
{
	struct record *gone;

	r->bytes = bytes->len;
	while (s->options.dir < 0 && s->memory_bytes + r->bytes > s->options.max_memory &&
	       (gone = oldest(s, true)))
		lose(s, gone, LEDGER_LOST_OLD);
	if (s->memory_bytes + r->bytes > s->options.max_memory)
		return -ENOSPC;
	r->in_memory = *bytes;
	*bytes = (struct pack){};
	return 0;
}

/* The window with the entries that it needs and no others, behind a head. */
static int encode(struct spool *s, const struct profile *dict, const struct window *w,
		  const struct record *r, struct pack *out)
{
	CLEANUP(profile_freep) struct profile *own = profile_new();
	CLEANUP(remap_done) struct remap m = {};
	struct entries_mark mark = {};
	struct pack body = {}, packed = {};
	struct window copy;

	int err = translate_window(w, dict, &m, own, &copy);
	if (err)
		return err;
	copy.epoch = 0;
	window_write(&copy, own, &mark, SIZE_MAX, &body);
	window_done(&copy);
	compressor_pack(&s->compressor, body.bytes, body.len, LEVEL, &packed);
	struct head h = {.id = r->id,
			 .samples = r->samples,
			 .start_ms = r->start_ms,
			 .body_len = packed.len};
	memcpy(h.magic, magic, sizeof(magic));
	snprintf(h.type, sizeof(h.type), "%s", r->type);
	h.hash = hash_of(&h);
	err = body.len > UNPACK_MAX ? -EFBIG : 0;
	pack_raw(out, &h, sizeof(h));
	pack_raw(out, packed.bytes, packed.len);
	pack_done(&body);
	pack_done(&packed);
	return err;
}

int spool_put(struct spool *s, const struct profile *dict, const struct window *w)
{
	struct record r = {.number = s->next, .start_ms = w->start_ms};
	struct pack bytes = {};

	memcpy(r.id.instance, w->instance, sizeof(r.id.instance));
	r.id.sequence = w->sequence;
	r.id.part = w->part;
	/* A collector sends one after the other: only the last can come again. */
	if (memcmp(&r.id, &s->newest, sizeof(r.id)) == 0)
		return -EEXIST;
	snprintf(r.type, sizeof(r.type), "%s", w->type);
	for (uint32_t i = 0; i < w->row_count; i++)
		r.samples += w->rows[i].count;
	int err = encode(s, dict, w, &r, &bytes);
	if (!err && put_on_disk(s, &r, &bytes) != 0)
		err = put_in_memory(s, &r, &bytes);
	pack_done(&bytes);
	if (err)
		return err;
	s->newest = r.id;
	add(s, &r);
	return 0;
}

/* ---- out ----------------------------------------------------------------------------------- */

static int load(struct spool *s, const struct record *r, char **ret, size_t *ret_len)
{
	char name[NAME_LEN];
	struct head h = {};

	if (r->in_memory.len) {
		*ret = mem_dup(r->in_memory.bytes, r->in_memory.len);
		*ret_len = r->in_memory.len;
		return 0;
	}
	CLEANUP(fd_closep)
	int fd = openat(s->options.dir, name_of(r->number, name), O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : read_head(s, fd, &h);
	if (err || h.body_len > UNPACK_MAX)
		return err ? err : -EFBIG;
	*ret_len = sizeof(h) + h.body_len;
	*ret = mem_resize_array(NULL, *ret_len, 1);
	return file_pread(fd, *ret, *ret_len, 0);
}

static int decode(struct spool *s, const struct record *r, struct spooled *ret)
{
	CLEANUP(freep) char *bytes = NULL;
	size_t len, plain;

	int err = load(s, r, &bytes, &len);
	err = err ? err
		  : compressor_unpack(&s->compressor, bytes + sizeof(struct head),
				      len - sizeof(struct head), UNPACK_MAX, &plain);
	if (err)
		return err;
	ret->dict = profile_new();
	err = window_read(s->compressor.bytes, plain, ret->dict, &ret->window);
	if (err)
		profile_free(TAKE_PTR(ret->dict));
	return err;
}

bool spool_next(struct spool *s, unsigned skip, struct spooled *ret)
{
	while (s->end - s->first > skip) {
		struct record *r = &s->records[s->first + skip];
		struct spooled out = {
			.number = r->number, .samples = r->samples, .through = r->through};
		if (decode(s, r, &out) != 0) {
			lose(s, r, LEDGER_LOST_DAMAGED);
			continue;
		}
		r->out = true;
		*ret = out;
		return true;
	}
	return false;
}
/* Whether two records have rows, or spans, of the same window. */
static bool same_window(const struct record *a, const struct record *b)
{
	return a->start_ms == b->start_ms && strcmp(a->type, b->type) == 0 &&
	       memcmp(a->id.instance, b->id.instance, sizeof(a->id.instance)) == 0;
}

static void add_spans(struct spool *s, const struct record *from, struct spooled *to)
{
	CLEANUP(remap_done) struct remap m = {};
	struct spooled one = {};

	if (from->samples || decode(s, from, &one) != 0)
		return;
	remap_set_stack(&m, 0, 0);
	if (to->window.span_row_count + one.window.span_row_count <= SPAN_ROWS_MAX)
		translate_spans(&one.window, one.dict, &m, to->dict, &to->window);
	spooled_done(&one);
}

bool spool_add_spans(struct spool *s, struct spooled *r)
{
	struct record *of = find(s, r->number);

	for (uint32_t i = (uint32_t)(of - s->records) + 1; i < s->end; i++) {
		if (!same_window(of, &s->records[i]))
			return true;
		add_spans(s, &s->records[i], r);
	}
	return false;
}

void spooled_done(struct spooled *r)
{
	window_done(&r->window);
	profile_free(r->dict);
	*r = (struct spooled){};
}

void spool_progress(struct spool *s, uint64_t number, uint64_t through, uint64_t sent,
		    uint64_t refused)
{
	struct ledger_page *p = &s->ledger.now;
	struct record *r = find(s, number);
	uint64_t samples = sent + refused;

	if (!r)
		return;
	if (p->under_way != number)
		p->through_samples = 0;
	p->under_way = number;
	p->through = r->through = through;
	p->through_samples += samples;
	p->sent += sent;
	p->lost[LEDGER_LOST_REFUSED] += refused;
	ledger_save(&s->ledger);
	samples = MIN(samples, r->samples);
	r->samples -= samples;
	s->samples -= samples;
}

void spool_settle(struct spool *s, uint64_t number)
{
	struct record *r = find(s, number);

	if (r)
		end(s, r, &s->ledger.now.sent, &s->ledger.now.sent_records);
}

void spool_refuse(struct spool *s, uint64_t number)
{
	struct record *r = find(s, number);

	if (r)
		lose(s, r, LEDGER_LOST_REFUSED);
}

void spool_losses(const struct spool *s, struct window *w)
{
	for (size_t i = 0; i < LEDGER_ACCOUNTS; i++) {
		const struct ledger_account *a = &s->ledger.now.accounts[i];
		if (memcmp(a->instance, w->instance, sizeof(a->instance)) != 0 ||
		    strncmp(a->type, w->type, sizeof(a->type)) != 0)
			continue;
		w->counts.lost[WINDOW_LOST_BUFFER] += a->dropped;
		w->counts.lost[WINDOW_LOST_REFUSED] += a->refused;
	}
}

void spool_stats(const struct spool *s, struct spool_stats *ret)
{
	const struct ledger_page *p = &s->ledger.now;

	*ret = (struct spool_stats){
		.records = s->end - s->first,
		.bytes = s->bytes + s->memory_bytes,
		.samples = s->samples,
		.memory_bytes = s->memory_bytes,
		.oldest_ms = s->end > s->first ? s->records[s->first].start_ms : 0,
		.taken = p->sent + s->samples,
		.sent = p->sent,
		.sent_records = p->sent_records,
		.lost_records = p->lost_records,
		.error = s->error,
	};
	for (int i = 0; i < LEDGER_LOST_REASONS; i++)
		ret->taken += ret->lost[i] = p->lost[i];
}
