/*
 * cost: what smolder itself costs, since it was started and in the last minute.
 *
 * The counters only say what was used since they started, and starting up is expensive: after an
 * hour it still shows in the average. So a snapshot of all counters is taken every ten seconds, and
 * those of the last minute are kept; recent use is the difference between the oldest of them and
 * now, and is there for the first page that asks. Disk use needs a longer base, since windows are
 * packed every five minutes and summed up every hour: its snapshots are kept for an hour.
 *
 * A collector sends its counters with its windows, as metrics:
 *
 *	uptime_seconds                      how long it has been counting
 *	cpu_seconds_total{process="NAME"}   of each of its processes
 *	resident_bytes{process="NAME"}
 *	bpf_seconds_total{program="NAME"}   of each BPF program
 *	timer_seconds_total                 an estimate of what its interrupts cost
 *	stage_seconds_total{stage="NAME"}   the same CPU and BPF seconds, by what they were for
 *
 * They are divided by the collector's own uptime, not the server's. Where several collectors send,
 * one of them is reported, and it stays the same one while it keeps sending.
 */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/usage.h"
#include "render/escape.h"
#include "serve/server_internal.h"

#define CONSUMERS_MAX  24
#define SNAPSHOTS      7  /* every ten seconds: the oldest is a minute to 70 seconds old */
#define RECENT_LEAST   10 /* seconds; less would be noise */
#define SILENT_MS      60000
#define DISK_SNAPSHOTS 13 /* every five minutes: an hour and up to five minutes */
#define DISK_EVERY     300.0
#define DISK_LEAST     900.0

struct consumer {
	char name[64];
	double seconds;
	double bytes;
};

struct consumers {
	struct consumer list[CONSUMERS_MAX +
			     1]; /* the last takes those beyond the cap, and is not counted */
	size_t count;
};

/* All counters at one moment. */
struct readings {
	double at;  /* monotonic seconds */
	double cpu; /* seconds of the server */
	uint64_t taken, lost;
	bool has_collector;
	uint8_t instance[16];
	double uptime, timer;
	struct consumers parts, stages; /* by process or BPF program; by stage */
};

struct disk_snapshot {
	double at;
	uint64_t written; /* bytes there now, and those removed since */
};

struct cost {
	struct server *server;
	double started; /* monotonic seconds */
	struct readings snapshots[SNAPSHOTS];
	size_t count; /* ever; the newest is at count - 1 */
	struct disk_snapshot disk[DISK_SNAPSHOTS];
	size_t disk_count;
};

/* ---- taking snapshots ------------------------------------------------------------------------ */

/* The VALUE of NAME{label="VALUE"}, if `metric` begins with `head`, NAME{label=". */
static bool labelled(const char *metric, const char *head, char ret[static 64])
{
	size_t len = strlen(head);

	if (strncmp(metric, head, len) != 0)
		return false;
	size_t value = strcspn(metric + len, "\"");
	if (!value || value >= 60)
		return false;
	memcpy(ret, metric + len, value);
	ret[value] = '\0';
	return true;
}

static struct consumer *consumer_of(struct consumers *p, const char *prefix, const char *name)
{
	char full[64];

	snprintf(full, sizeof(full), "%s%.59s", prefix, name);
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->list[i].name, full) == 0)
			return &p->list[i];
	if (p->count == CONSUMERS_MAX)
		return &p->list[CONSUMERS_MAX];
	memcpy(p->list[p->count].name, full, sizeof(full));
	return &p->list[p->count++];
}

static void on_metric(void *ctx, const uint8_t instance[16], const char *name, double value)
{
	struct readings *l = ctx;
	char label[64];

	if (memcmp(instance, l->instance, 16) != 0 || !isfinite(value))
		return;
	if (strcmp(name, "uptime_seconds") == 0)
		l->uptime = value;
	else if (strcmp(name, "timer_seconds_total") == 0)
		l->timer = value;
	else if (labelled(name, "resident_bytes{process=\"", label))
		consumer_of(&l->parts, "", label)->bytes = value;
	else if (labelled(name, "cpu_seconds_total{process=\"", label))
		consumer_of(&l->parts, "", label)->seconds = value;
	else if (labelled(name, "bpf_seconds_total{program=\"", label))
		consumer_of(&l->parts, "BPF ", label)->seconds = value;
	else if (labelled(name, "stage_seconds_total{stage=\"", label))
		consumer_of(&l->stages, "", label)->seconds = value;
}

static const struct readings *newest(const struct cost *c)
{
	return c->count ? &c->snapshots[(c->count - 1) % SNAPSHOTS] : NULL;
}

static void take_snapshot(const struct cost *c, const struct store_stats *store,
			  struct readings *ret)
{
	const struct readings *before = newest(c);
	const struct receiver *r = c->server->receiver;
	uint64_t now_ms = clock_ms(CLOCK_REALTIME);

	*ret = (struct readings){.at = (double)clock_ns(CLOCK_MONOTONIC) / 1e9,
				 .cpu = usage_cpu_seconds(),
				 .taken = store->taken};
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		ret->lost += store->lost[i];
	ret->has_collector = receiver_main_collector(
		r, before && before->has_collector ? before->instance : NULL,
		now_ms - MIN(now_ms, SILENT_MS), ret->instance);
	if (ret->has_collector)
		receiver_metrics(r, on_metric, ret);
}

static void take_disk_snapshot(struct cost *c, double at, const struct store_stats *store)
{
	if (c->disk_count && at - c->disk[(c->disk_count - 1) % DISK_SNAPSHOTS].at < DISK_EVERY)
		return;
	c->disk[c->disk_count++ % DISK_SNAPSHOTS] = (struct disk_snapshot){
		.at = at, .written = store->bytes_without_wal + store->removed_bytes};
}

void cost_snapshot(struct cost *c)
{
	struct store_stats store;
	struct readings now;

	store_stats(c->server->store, &store);
	take_snapshot(c, &store, &now);
	c->snapshots[c->count++ % SNAPSHOTS] = now;
	take_disk_snapshot(c, now.at, &store);
}

struct cost *cost_new(struct server *s)
{
	struct cost *c = mem_alloc(sizeof(*c));

	c->server = s;
	c->started = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
	cost_snapshot(c);
	return c;
}

void cost_free(struct cost *c)
{
	free(c);
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* What was used between two snapshots; the collector's, over its own time. */
struct used {
	double seconds, collector_seconds;
	const struct readings *from, *to;
	const struct readings *collector_from; /* NULL: since it was started */
};

static double of_machine(double seconds, double over)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return over > 0 ? 100 * seconds / over / (double)MAX(cpus, 1L) : 0;
}

static bool has_collector_of(const struct readings *l, const struct readings *now)
{
	return l->has_collector && memcmp(l->instance, now->instance, 16) == 0 &&
	       l->uptime <= now->uptime;
}

/*
 * The oldest snapshot of the present collector. NULL if that collector is newer than the oldest
 * snapshot and has sent nothing since: then there is no difference yet, and its use since its start
 * is reported.
 */
static const struct readings *collector_base(const struct cost *c, const struct readings *now)
{
	size_t kept = MIN(c->count, (size_t)SNAPSHOTS);

	for (size_t i = c->count - kept; i < c->count; i++) {
		const struct readings *l = &c->snapshots[i % SNAPSHOTS];
		if (has_collector_of(l, now))
			return l->uptime < now->uptime || i == c->count - kept ? l : NULL;
	}
	return NULL;
}

static struct used used_recently(const struct cost *c, const struct readings *now)
{
	size_t kept = MIN(c->count, (size_t)SNAPSHOTS);
	const struct readings *from = &c->snapshots[(c->count - kept) % SNAPSHOTS];
	const struct readings *base = collector_base(c, now);

	return (struct used){
		.seconds = now->at - from->at,
		.collector_seconds = now->uptime - (base ? base->uptime : 0),
		.from = from,
		.to = now,
		.collector_from = base,
	};
}

static const struct consumer *find_consumer(const struct consumers *p, const char *name)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->list[i].name, name) == 0)
			return &p->list[i];
	return NULL;
}

static double consumer_percent(const struct used *u, const struct consumer *p,
			       const struct consumers *before)
{
	const struct consumer *b = before ? find_consumer(before, p->name) : NULL;

	return of_machine(p->seconds - (b ? b->seconds : 0), u->collector_seconds);
}

static double server_percent(const struct used *u)
{
	return of_machine(u->to->cpu - (u->from ? u->from->cpu : 0), u->seconds);
}

static void write_consumer(FILE *out, const char *name, double percent, double bytes)
{
	fputs("{\"name\":", out);
	escape_json(out, name, strlen(name));
	fprintf(out, ",\"cpu_percent\":%.5f", percent);
	if (bytes >= 0)
		fprintf(out, ",\"memory_bytes\":%.0f", bytes);
	fputs("}", out);
}

/* The stages, and the part of `sum` that is in none, such as the collector's start-up. */
static void write_stages(FILE *out, const struct used *u, double sum)
{
	const struct consumers *before = u->collector_from ? &u->collector_from->stages : NULL;

	fputs("\"stages\":[\n", out);
	for (size_t i = 0; i < u->to->stages.count; i++) {
		const struct consumer *p = &u->to->stages.list[i];
		double percent = consumer_percent(u, p, before);
		write_consumer(out, p->name, percent, -1);
		fputs(",\n", out);
		sum -= percent;
	}
	write_consumer(out, "store and queries", server_percent(u), -1);
	fputs(",\n", out);
	write_consumer(out, "the rest", MAX(sum - server_percent(u), 0.0), -1);
	fputs("],\n", out);
}

/* The counters of a store that was deleted start again at 0. */
static uint64_t since(uint64_t before, uint64_t now)
{
	return now - MIN(before, now);
}

/* The processes and programs, what they add up to, and by stage. */
static void write_used(FILE *out, const struct used *u)
{
	const struct consumers *before = u->collector_from ? &u->collector_from->parts : NULL;
	double sum = server_percent(u), bytes = (double)usage_resident_bytes();

	fputs("\"parts\":[\n", out);
	write_consumer(out, "server", sum, bytes);
	for (size_t i = 0; i < u->to->parts.count; i++) {
		const struct consumer *p = &u->to->parts.list[i];
		double percent = consumer_percent(u, p, before);
		fputs(",\n", out);
		write_consumer(out, p->name, percent, p->bytes);
		sum += percent;
		bytes += p->bytes;
	}
	fputs("],\n", out);
	write_stages(out, u, sum);
	double timer = u->to->timer - (u->collector_from ? u->collector_from->timer : 0);
	fprintf(out,
		"\"seconds\":%.0f,\"collector_seconds\":%.0f,\"cpu_percent\":%.5f,"
		"\"timer_percent\":%.5f,\"memory_bytes\":%.0f,\"taken\":%" PRIu64
		",\"lost\":%" PRIu64,
		u->seconds, u->collector_seconds, sum, of_machine(timer, u->collector_seconds),
		bytes, since(u->from ? u->from->taken : 0, u->to->taken),
		since(u->from ? u->from->lost : 0, u->to->lost));
}

/* Bytes per day, or null while too little time has passed. */
static void write_disk(FILE *out, double bytes, double seconds)
{
	if (seconds < DISK_LEAST)
		fputs(",\"disk_bytes_per_day\":null", out);
	else
		fprintf(out, ",\"disk_bytes_per_day\":%.0f", MAX(bytes, 0.0) / seconds * 86400);
}

static void write_recent(const struct cost *c, const struct store_stats *store,
			 const struct readings *now, FILE *out)
{
	size_t kept = MIN(c->disk_count, (size_t)DISK_SNAPSHOTS);
	const struct disk_snapshot *disk = &c->disk[(c->disk_count - kept) % DISK_SNAPSHOTS];
	struct used u = used_recently(c, now);

	if (u.seconds < RECENT_LEAST) {
		fputs(",\n\"recent\":null", out);
		return;
	}
	fputs(",\n\"recent\":{", out);
	write_used(out, &u);
	write_disk(out,
		   (double)(store->bytes_without_wal + store->removed_bytes) -
			   (double)disk->written,
		   now->at - disk->at);
	fprintf(out, ",\"disk_seconds\":%.0f}", now->at - disk->at);
}

void cost_write(struct cost *c, const struct store_stats *store, FILE *out)
{
	struct readings now;

	take_snapshot(c, store, &now);
	struct used all = {
		.seconds = now.at - c->started + 0.001,
		.collector_seconds = now.uptime,
		.to = &now,
	};
	fputs("\"cost\":{", out);
	write_used(out, &all);
	write_disk(out, (double)store->bytes_without_wal,
		   (double)(store->last_ms - store->first_ms) / 1000);
	write_recent(c, store, &now, out);
	fputs("}", out);
}
