/*
 * perfscript: the text of `perf script`.
 *
 * A sample is a header, the frames below it from the leaf on, and a blank line. Without call chains
 * (perf record without -g) the one frame stands in the header and no blank line follows; with
 * -F ip,sym there is no header. So a sample ends at a blank line, at the next header, or at the end
 * of the file. perf starts a frame with a tab; text that lost its tabs on the way is read too.
 */
#include <errno.h>

#include "base/mem.h"
#include "ingest/module.h"
#include "ingest/perfline.h"
#include "ingest/reader.h"

struct perfscript {
	struct reader *r;
	struct profile *p;
	struct frame *frames; /* of the sample at hand, leaf first */
	uint32_t depth, frame_cap;
	uint64_t beyond;    /* frames of it past the cap */
	bool open;          /* a sample has begun … */
	bool unsure;        /* … by a line that is only one if frames follow */
	uint64_t open_line; /* … there */
	bool other;         /* … of an event that is not read */
	uint32_t series;
	char event[64]; /* the one that is read; empty: not yet known */
	uint64_t first_ns, last_ns;
	uint64_t samples;
	uint32_t comm_key, thread_key, pid_key, tid_key;
};

static uint32_t keep(struct perfscript *f, struct perf_text t)
{
	return profile_string(f->p, t.s, t.len);
}

static uint32_t key(struct perfscript *f, const char *s)
{
	return profile_string(f->p, s, strlen(s));
}

static uint32_t nameless(struct perfscript *f, const struct perf_frame *in)
{
	size_t len = 0;
	const char *name = module_basename(in->module.s, in->module.len, &len);
	CLEANUP(freep)
	char *text = mem_printf("[%.*s+0x%llx]", len ? (int)MIN(len, (size_t)512) : 7,
				len ? name : "unknown", (unsigned long long)in->addr);

	return key(f, text);
}

static enum frame_kind kind(const struct perf_frame *in)
{
	if (in->inlined)
		return FRAME_INLINED;
	if (in->module.len)
		return module_kind(in->module.s, in->module.len);
	/* Without a file the address tells: the kernel's half has the top bit set. */
	return in->addr >> 63 ? FRAME_KERNEL : FRAME_USER;
}

static void add_frame(struct perfscript *f, const struct perf_frame *in)
{
	if (f->other)
		return;
	if (f->depth == INGEST_DEPTH_MAX) {
		f->beyond++;
		return;
	}

	struct frame frame = {
		.name = in->symbol.len ? keep(f, in->symbol) : nameless(f, in),
		.kind = kind(in),
	};
	if (in->module.len) {
		size_t len;
		const char *name = module_basename(in->module.s, in->module.len, &len);
		frame.module = profile_module(
			f->p, &(struct module){
				      .name = profile_string(f->p, name, len),
				      .path = len < in->module.len ? keep(f, in->module) : 0,
			      });
	}
	MEM_GROW(f->frames, f->depth, f->frame_cap);
	f->frames[f->depth++] = frame;
}

static int end_sample(struct perfscript *f)
{
	struct reader *r = f->r;
	uint32_t stack = 0, module = 0;

	if (!f->open)
		return 0;
	f->open = false;
	if (f->unsure && f->depth == 0) {
		uint64_t line = r->line;
		r->line = f->open_line;
		reader_skip(r);
		r->line = line;
		return 0;
	}
	if (f->other) {
		r->report->other_samples++;
		return 0;
	}

	if (f->beyond) {
		r->info.truncated++;
		stack = reader_truncated(r, 0);
	}
	for (uint32_t i = f->depth; i-- > 0;) {
		struct frame *frame = &f->frames[i];
		/* An inlined frame is in the file of the one it was inlined into. */
		if (frame->kind == FRAME_INLINED)
			frame->module = module;
		module = frame->module;
		stack = profile_stack(f->p, stack, profile_frame(f->p, frame));
	}
	f->samples++;
	return reader_add(r, f->series, stack, 1, 1);
}

static void begin_sample(struct perfscript *f)
{
	f->open = true;
	f->unsure = false;
	f->other = false;
	f->open_line = f->r->line;
	f->depth = 0;
	f->beyond = 0;
	f->series = 0;
}

/* "cycles" asks for "cycles:u" too. */
static bool asked_for(const char *want, struct perf_text event)
{
	size_t n = strlen(want);

	return event.len >= n && memcmp(event.s, want, n) == 0 &&
	       (event.len == n || event.s[n] == ':');
}

static bool is_other_event(struct perfscript *f, struct perf_text event)
{
	if (event.len == 0)
		return false;
	if (f->event[0] == '\0') {
		if (f->r->o->sample_type)
			snprintf(f->event, sizeof(f->event), "%s", f->r->o->sample_type);
		else
			snprintf(f->event, sizeof(f->event), "%.*s",
				 (int)MIN(event.len, sizeof(f->event) - 1), event.s);
	}
	if (f->r->o->sample_type
		    ? asked_for(f->r->o->sample_type, event)
		    : event.len == strlen(f->event) && memcmp(event.s, f->event, event.len) == 0)
		return false;
	reader_quote(event.s, event.len, f->r->report->other_name);
	return true;
}

static uint32_t series(struct perfscript *f, const struct perf_header *h)
{
	struct label labels[4];
	size_t n = 0;

	if (h->comm.len) {
		/* perf prints the thread's name; that of its process it does not tell. */
		labels[n++] = (struct label){f->comm_key, keep(f, h->comm)};
		labels[n++] = (struct label){f->thread_key, labels[0].value};
	}
	if (h->pid.len)
		labels[n++] = (struct label){f->pid_key, keep(f, h->pid)};
	if (h->tid.len)
		labels[n++] = (struct label){f->tid_key, keep(f, h->tid)};
	return profile_series(f->p, labels, n);
}

static int header(struct perfscript *f, const struct perf_header *h)
{
	int err = end_sample(f);
	if (err)
		return err;

	begin_sample(f);
	f->unsure = !h->sure && !h->has_frame;
	f->other = is_other_event(f, h->event);
	f->series = series(f, h);
	if (h->has_time) {
		f->first_ns = f->first_ns ? MIN(f->first_ns, h->time_ns) : h->time_ns;
		f->last_ns = MAX(f->last_ns, h->time_ns);
	}
	if (h->has_frame)
		add_frame(f, &h->frame);
	return 0;
}

static int frame_line(struct perfscript *f, const char *s, size_t len)
{
	struct perf_frame frame;

	if (!perfline_frame(s, len, &frame)) {
		reader_skip(f->r);
		return 0;
	}
	if (!f->open) {
		begin_sample(f);
		f->unsure = true;
	}
	add_frame(f, &frame);
	return 0;
}

/* A line that starts with spaces and is no header: a frame, or the source line of one. */
static int indented(struct perfscript *f, const char *s, size_t len)
{
	struct perf_frame frame;
	struct perf_text file;
	uint32_t line;

	if (f->open && perfline_frame(s, len, &frame)) {
		add_frame(f, &frame);
	} else if (f->open && f->depth && perfline_source(s, len, &file, &line)) {
		f->frames[f->depth - 1].source = keep(f, file);
		f->frames[f->depth - 1].line = line;
	} else if (!f->open ||
		   s[len - 1] != ']') { /* "libc.so[2724a]": a line perf does not know */
		reader_skip(f->r);
	}
	return 0;
}

static int read_line(struct perfscript *f, const char *s, size_t len)
{
	struct perf_header h;

	while (len && (s[len - 1] == ' ' || s[len - 1] == '\t'))
		len--;
	if (len == 0)
		return end_sample(f);
	if (*s == '#' && !f->open)
		return 0;
	if (*s == '\t')
		return frame_line(f, s, len);
	if (perfline_header(s, len, &h))
		return header(f, &h);
	if (*s == ' ')
		return indented(f, s, len);

	/* perf script -F comm,ip,sym: the line is the comm, if frames follow. */
	h = (struct perf_header){.comm = {s, len}};
	return header(f, &h);
}

static int nothing_read(struct perfscript *f)
{
	struct reader *r = f->r;

	if (r->report->other_samples)
		return reader_fail_at(r, -EINVAL, "",
				      "there is no sample of event '%s'; it has '%s'",
				      r->o->sample_type, r->report->other_name);
	r->line = r->report->skipped_first;
	return reader_fail(r, -EINVAL, "there is no sample in the format of 'perf script'");
}

int perfscript_read(struct reader *r)
{
	struct perfscript f = {.r = r, .p = r->p};
	const char *line;
	size_t len;
	int n;

	f.comm_key = key(&f, "comm");
	f.thread_key = key(&f, "thread");
	f.pid_key = key(&f, "pid");
	f.tid_key = key(&f, "tid");
	while ((n = reader_line(r, &line, &len)) > 0) {
		n = read_line(&f, line, len);
		if (n)
			break;
	}
	if (n == 0)
		n = end_sample(&f);
	free(f.frames);
	if (n < 0)
		return n;
	r->info.duration_ns = f.last_ns - f.first_ns;
	return f.samples ? 0 : nothing_read(&f);
}

/* Whether a line tells that this is `perf script`: a header with a time, a CPU or a frame in it. */
static bool is_telling(const char *s, size_t len)
{
	struct perf_header h;

	return perfline_header(s, len, &h) && (h.has_time || h.has_cpu || h.has_frame);
}

bool perfscript_looks_like(const char *data, size_t len)
{
	const char *end = data + len;

	/* Mappings and the like may stand before the first sample. */
	for (int lines = 0; data < end && lines < 64;) {
		const char *nl = memchr(data, '\n', (size_t)(end - data));
		size_t n = (size_t)((nl ? nl : end) - data);
		struct perf_frame frame;

		while (n && memchr(" \t\r", data[n - 1], 3))
			n--;
		if (n && *data != '#') {
			if (*data == '\t' ? perfline_frame(data, n, &frame) : is_telling(data, n))
				return true;
			lines++;
		}
		data = nl ? nl + 1 : end;
	}
	return false;
}
