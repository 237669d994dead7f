#include "cli/source.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fetch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/package.h"
#include "cli/secrets.h"
#include "cli/store_dir.h"
#include "ingest/ingest.h"
#include "profile/snapshot.h"
#include "query/selector.h"
#include "render/describe.h"
#include "render/escape.h"
#include "serve/server.h"

#define ANSWER_MAX (1u << 30)
#define JSON_MAX   (16u << 20) /* of an answer that is JSON */
#define NAMES_MAX  5000
#define LOCAL_PORT ":7117" /* of a server that is named without one */
#define LOCAL_URL  "http://" SERVER_LISTEN
#define PROBE_MS   1000
#define STARTING_MS                                                                                \
	30000 /* a writer that has stored nothing for longer has nobody to send it anything */
#define PROGRESS_MS 700 /* what is quicker needs no words */

struct source {
	char *bearer;        /* NULL: none */
	const char *ca;      /* file, of the command line; NULL: the system's */
	char *url;           /* a server's, without a slash at its end; NULL: the store */
	struct store *store; /* NULL: the server */
	uint64_t timeout_ms, began_ms;
	char *hint;       /* " --server URL", " --store DIR" or "" */
	const char *said; /* the selector that say_process() was last about; of the command line */
};

/* ---- options ------------------------------------------------------------------------------- */

void source_help(void)
{
	puts("      --server URL      ask this server instead of the local one or the store\n"
	     "      --store DIR       read this store itself\n"
	     "      --token-file FILE the server's token\n"
	     "      --ca-file FILE    trust the certificates in it, PEM, for https\n"
	     "      --timeout TIME    give up after that: 30s, 2m (no limit)");
}

bool source_owns(int opt)
{
	return opt >= SOURCE_SERVER && opt <= SOURCE_TIMEOUT;
}

char *source_url(const char *given)
{
	size_t len = strlen(given);

	while (len && given[len - 1] == '/')
		len--;
	bool has_port = len && memchr(given, ':', len) && given[len - 1] != ']';
	char *url = strstr(given, "://") ? mem_strndup(given, len)
					 : mem_printf("http://%.*s%s", (int)len, given,
						      has_port ? "" : LOCAL_PORT);
	if (fetch_is_url(url))
		return url;
	log_error("--server takes a URL such as http://127.0.0.1:7117, with a port up to 65535, "
		  "not '%s'",
		  given);
	free(url);
	return NULL;
}

bool source_option(struct source_options *o, int opt, const char *arg)
{
	if ((opt == SOURCE_SERVER && o->store) || (opt == SOURCE_STORE && o->server)) {
		log_error("--server and --store are two sources; give one");
		return false;
	}
	if (opt == SOURCE_SERVER) {
		CLEANUP(freep) char *url = source_url(arg);
		o->server = arg;
		return url;
	} else if (opt == SOURCE_STORE) {
		o->store = arg;
	} else if (opt == SOURCE_TOKEN) {
		o->token = arg;
	} else if (opt == SOURCE_CA) {
		o->ca = arg;
	} else if (timerange_duration(arg, &o->timeout_ms) != 0 || !o->timeout_ms) {
		log_error("--timeout takes a time like 30s or 2m, not '%s'", arg);
		return false;
	}
	return true;
}

/* ---- where it is --------------------------------------------------------------------------- */

/* NULL if it is none. */
static json_t *read_json(const struct fetch_answer *a)
{
	return a->len <= JSON_MAX ? json_loadb(a->body, a->len, 0, NULL) : NULL;
}

/* Borrowed; "" if there is none. It may hold anything. */
static const char *json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/*
 * Whether a server of ours listens there: any other program may. One that wants a token which we do
 * not have answers nothing, nor does one that does not let this user look.
 */
static bool server_answers(const char *url, const char *bearer, bool *ret_wants_token,
			   bool *ret_refuses)
{
	CLEANUP(freep) char *status = mem_printf("%s/api/v1/status", url);
	struct fetch_request r = {
		.url = status, .authorization = bearer, .timeout_ms = PROBE_MS, .max = 1 << 20};
	struct fetch_answer a;
	struct fetch_error err;

	if (fetch(&r, &a, &err) != 0)
		return false;
	json_auto_t *said = read_json(&a);
	bool ours = a.status == 200 && strcmp(json_text(said, "program"), "smolder") == 0;
	*ret_refuses = a.status == 403 && strstr(json_text(said, "error"), "may not look here");
	*ret_wants_token = a.status == 401 && strstr(a.headers, "realm=\"smolder\"");
	fetch_answer_done(&a);
	return ours;
}

/* What helps where the store of this user is not the one that was meant. */
static void say_no_store(const struct source_options *given, const char *dir, int err,
			 const struct store_error *why)
{
	if (err == -ENOENT && given->store)
		log_error("there is no store in %s; 'smolder run' makes one, in %s unless told",
			  dir, STORE_DIR_SYSTEM);
	else if (err == -ENOENT)
		log_error(
			"there is no store in %s, and no server answers on %s; 'smolder run' makes "
			"one, --server and --store tell where else to look",
			dir, SERVER_LISTEN);
	else if (err == -EACCES || err == -EPERM)
		log_error("%s; run as that user or with sudo, or ask the server that keeps it "
			  "(--server URL)",
			  why->text);
	else
		log_error("%s", why->text);
}

static bool on_progress(void *ctx, double done)
{
	const struct source *s = ctx;
	uint64_t waited = clock_ms(CLOCK_MONOTONIC) - s->began_ms;

	if (waited > PROGRESS_MS)
		log_progress("reading the store: %.0f %%", 100 * done);
	return !s->timeout_ms || waited < s->timeout_ms;
}

static bool open_store(struct source *s, const struct source_options *given, const char *dir)
{
	struct store_options o = {.read_only = true, .progress = on_progress, .progress_ctx = s};
	struct store_error err = {};

	int r = store_open(dir, &o, &s->store, &err);
	if (r)
		say_no_store(given, dir, r, &err);
	return !r;
}

struct source *source_open(const struct source_options *o)
{
	struct source *s = mem_alloc(sizeof(*s));
	CLEANUP(freep) char *dir = o->store ? mem_strdup(o->store) : store_dir_readable();

	bool wants_token = false, refuses = false;

	s->hint = o->server  ? mem_printf(" --server %s", o->server)
		  : o->store ? mem_printf(" --store %s", o->store)
			     : mem_strdup("");
	s->timeout_ms = o->timeout_ms;
	s->ca = o->ca;
	s->began_ms = clock_ms(CLOCK_MONOTONIC);
	s->bearer = o->token ? secrets_bearer(o->token) : NULL;
	if (o->token && !s->bearer) {
		source_close(s);
		return NULL;
	}
	if (o->server) {
		s->url = source_url(o->server);
		return s;
	} else if (!o->store && server_answers(LOCAL_URL, s->bearer, &wants_token, &refuses)) {
		s->url = mem_strdup(LOCAL_URL);
		return s;
	} else if (wants_token && (o->token || access(dir, R_OK) != 0)) {
		log_error("the server on %s wants %s token: --token-file FILE", SERVER_LISTEN,
			  o->token ? "another" : "its");
	} else if (refuses && access(dir, R_OK) != 0) {
		log_error("the server on %s does not let this user look: ask who started it for "
			  "--allow-user, or run this as they do",
			  SERVER_LISTEN);
	} else if (open_store(s, o, dir)) {
		return s;
	}
	source_close(s);
	return NULL;
}

void source_close(struct source *s)
{
	if (!s)
		return;
	store_close(s->store);
	if (s->bearer)
		explicit_bzero(s->bearer, strlen(s->bearer));
	free(s->bearer);
	free(s->url);
	free(s->hint);
	free(s);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Ctrl-C ends us at once: nothing was written yet, and nothing is left behind. */
static bool on_wait(void *ctx, uint64_t waited_ms, size_t received)
{
	(void)ctx;
	if (waited_ms > PROGRESS_MS)
		log_progress("waiting for the server: %.1f s, %.1f MB", (double)waited_ms / 1000,
			     (double)received / 1e6);
	return true;
}

/* What became of a selector that is one word, and no type; once, if it is asked again and again. */
static void say_process(struct source *s, const char *word)
{
	if (s->said && strcmp(s->said, word) == 0)
		return;
	s->said = word;
	const char *name = word + strspn(word, " \t\n\v\f\r");
	int len = (int)strcspn(name, " \t\n\v\f\r");

	log_info("no profile type is called '%.*s': showing cpu{comm=\"%.*s\"}", len, name,
		 MIN(len, 15), name);
}

/* ---- by a server --------------------------------------------------------------------------- */

static void add_param(FILE *f, const char *name, const char *value)
{
	fprintf(f, "&%s=", name);
	escape_url(f, value);
}

static char *question_url(const struct source *s, const struct source_question *q, const char *path,
			  const char *format)
{
	char *url = NULL;
	size_t len;
	FILE *f = open_memstream(&url, &len);

	fprintf(f, "%s/api/v1/%s?from=%" PRIu64 "&to=%" PRIu64, s->url, path, q->range.from_ms,
		q->range.to_ms);
	if (q->selector)
		add_param(f, "query", q->selector);
	if (format)
		add_param(f, "format", format);
	for (size_t i = 0; i < q->keep_count; i++) {
		fputs(i ? "," : "&keep=", f);
		escape_url(f, q->keep[i]);
	}
	fclose(f);
	return url;
}

/* The sentence of {"error": "…"}, for people. */
static void say_refusal(const struct source *s, const struct fetch_answer *a)
{
	json_auto_t *said = read_json(a);
	const char *text = json_text(said, "error");
	char clean[TEXT_MAX + 1];

	text_clean(text, strlen(text), clean);
	log_error("%s: %s (status %u)", s->url, *clean ? clean : "the server refused", a->status);
}

static int ask_server(struct source *s, const char *url, size_t max, struct fetch_answer *ret)
{
	struct fetch_request r = {.url = url,
				  .authorization = s->bearer,
				  .ca_file = s->ca,
				  .timeout_ms = s->timeout_ms,
				  .max = max,
				  .wait = on_wait,
				  .wait_ctx = s};
	struct fetch_error err;

	int e = fetch(&r, ret, &err);
	log_progress_done();
	if (e) {
		log_error("cannot ask %s: %s", s->url, err.text);
		return 1;
	}
	if (ret->status != 200) {
		int code = ret->status == 400 ? EXIT_USAGE : 1;
		say_refusal(s, ret);
		fetch_answer_done(ret);
		return code;
	}
	return 0;
}

static int unreadable(const struct source *s, const char *why)
{
	log_error("the answer of %s cannot be read: %s", s->url, why);
	return 1;
}

/* 0 with an object for json_decref(), or the exit status after saying why not. */
static int ask_json(struct source *s, const char *url, json_t **ret)
{
	struct fetch_answer a;

	int code = ask_server(s, url, JSON_MAX, &a);
	if (code)
		return code;
	json_t *answer = read_json(&a);
	fetch_answer_done(&a);
	if (!json_is_object(answer)) {
		json_decref(answer);
		return unreadable(s, "it is no JSON object");
	}
	*ret = answer;
	return 0;
}

static int profile_by_server(struct source *s, const struct source_question *q,
			     struct profile *into, struct store_answer *ret)
{
	CLEANUP(freep) char *url = question_url(s, q, "query", "profile");
	struct fetch_answer a;

	int code = ask_server(s, url, ANSWER_MAX, &a);
	if (code)
		return code;
	if (q->selector && fetch_header_number(&a, "X-Smolder-Process"))
		say_process(s, q->selector);
	int r = snapshot_read(a.body, a.len, into);
	*ret = (struct store_answer){
		.from_ms = fetch_header_number(&a, "X-Smolder-From"),
		.to_ms = fetch_header_number(&a, "X-Smolder-To"),
		.samples = fetch_header_number(&a, "X-Smolder-Samples"),
		.lost = fetch_header_number(&a, "X-Smolder-Lost"),
		.damaged = fetch_header_number(&a, "X-Smolder-Damaged"),
	};
	fetch_answer_done(&a);
	return r ? unreadable(s, r == -EPROTONOSUPPORT ? "it is of another version of smolder"
						       : strerror(-r))
		 : 0;
}

static int names_by_server(struct source *s, const struct source_question *q, const char *name,
			   struct store_names *ret)
{
	CLEANUP(freep) char *path = NULL;
	json_auto_t *answer = NULL;

	if (name) {
		size_t len;
		FILE *f = open_memstream(&path, &len);
		fputs("labels/", f);
		escape_url(f, name);
		fputs("/values", f);
		fclose(f);
	}
	CLEANUP(freep) char *url = question_url(s, q, name ? path : "labels", NULL);
	int code = ask_json(s, url, &answer);
	if (code)
		return code;
	const json_t *list = json_object_get(answer, name ? "values" : "labels");
	if (!json_is_array(list))
		return unreadable(s, "it has no list of names");
	*ret = (struct store_names){.cut = json_is_true(json_object_get(answer, "cut"))};
	ret->names = mem_alloc_array(json_array_size(list), sizeof(*ret->names));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *one = json_string_value(json_array_get(list, i));
		char clean[TEXT_MAX + 1];
		if (!one)
			continue;
		text_clean(one, strlen(one), clean);
		ret->names[ret->count++] = mem_strdup(clean);
	}
	return 0;
}

/* ---- by the store -------------------------------------------------------------------------- */

static int ended_badly(int err, const struct store_error *why)
{
	log_progress_done();
	if (!err)
		return 0;
	log_error("%s", err == -ECANCELED ? "reading the store took longer than --timeout allows"
					  : why->text);
	return 1;
}

static int begin_query(struct source *s, const struct source_question *q,
		       struct selector **ret_selector, struct store_query *ret)
{
	struct selector_error err = {};
	struct store_error why = {};

	if (selector_parse(q->selector ? q->selector : "cpu", ret_selector, &err) != 0) {
		log_error("%s", err.text);
		return EXIT_USAGE;
	}
	s->began_ms = clock_ms(CLOCK_MONOTONIC);
	int r = selector_settle_by(*ret_selector, s->store, q->range.from_ms, q->range.to_ms, &why);
	*ret = (struct store_query){
		.from_ms = q->range.from_ms,
		.to_ms = q->range.to_ms,
		.by = q->keep,
		.by_count = q->keep_count,
	};
	selector_query(*ret_selector, ret);
	if (q->selector && selector_is_process(*ret_selector))
		say_process(s, q->selector);
	return ended_badly(r, &why);
}

bool source_selector(const char *selector)
{
	CLEANUP(selector_freep) struct selector *parsed = NULL;
	struct selector_error err = {};
	bool is_path =
		selector && !strchr(selector, '{') &&
		(strncmp(selector, "./", 2) == 0 || *selector == '/' || render_by_path(selector));

	if (is_path)
		log_error("there is no file %s", selector);
	else if (selector && selector_parse(selector, &parsed, &err) != 0)
		log_error("%s", err.text);
	else
		return true;
	return false;
}

int source_profile(struct source *s, const struct source_question *q, struct profile *into,
		   struct store_answer *ret)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	struct store_query query;
	struct store_error why = {};

	if (s->url)
		return profile_by_server(s, q, into, ret);
	int code = begin_query(s, q, &selector, &query);
	return code ? code : ended_badly(store_sum(s->store, &query, into, ret, &why), &why);
}

int source_names(struct source *s, const struct source_question *q, const char *name,
		 struct store_names *ret)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	struct store_query query;
	struct store_error why = {};

	if (s->url)
		return names_by_server(s, q, name, ret);
	int code = begin_query(s, q, &selector, &query);
	if (code)
		return code;
	query.by = &name;
	query.by_count = name ? 1 : 0;
	query.max = NAMES_MAX;
	int r = store_names(s->store, &query, name ? STORE_VALUES : STORE_LABELS, ret, &why);
	return ended_badly(r, &why);
}

char *source_subject(struct source *s, const struct source_question *q)
{
	struct store_names hosts = {};
	char many[32], *subject;

	/* Without it the title is shorter; what hinders it has been said by then. */
	if (source_names(s, q, "host", &hosts) != 0)
		hosts = (struct store_names){};
	snprintf(many, sizeof(many), "%u hosts", hosts.count);
	const char *host = hosts.count == 1 ? hosts.names[0] : many;
	if (!hosts.count)
		subject = mem_strdup(q->selector ? q->selector : "cpu");
	else if (q->selector && strcmp(q->selector, "cpu") != 0)
		subject = mem_printf("%s on %s", q->selector, host);
	else
		subject = mem_strdup(host);
	store_names_done(&hosts);
	return subject;
}

/* ---- files --------------------------------------------------------------------------------- */

bool source_is_file(const char *arg)
{
	return strcmp(arg, "-") == 0 || access(arg, F_OK) == 0;
}

const char *source_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(path, "-") == 0 ? NULL : slash ? slash + 1 : path;
}

int source_file(const char *path, struct profile *into)
{
	bool std = strcmp(path, "-") == 0;
	CLEANUP(file_closep) FILE *opened = std ? NULL : fopen(path, "re");
	struct ingest_options o = {};
	struct ingest_report report;

	if (!std && !opened) {
		log_error("cannot read %s: %s", path, strerror(errno));
		return 1;
	}
	if (ingest_read(std ? stdin : opened, &o, into, &report) != 0) {
		log_error("cannot read %s: %s%s%s", std ? "standard input" : path, report.where,
			  *report.where ? ": " : "", report.why);
		return 1;
	}
	if (report.skipped)
		log_warn("%s: %llu lines were not understood and left out", path,
			 (unsigned long long)report.skipped);
	return 0;
}

/* ---- words --------------------------------------------------------------------------------- */

/* "14:02:05", with the day where that is not today. */
void source_time(uint64_t ms, char ret[static 32])
{
	time_t t = (time_t)(ms / 1000), now = time(NULL);
	struct tm tm, today;

	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	bool same = tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday;
	strftime(ret, 32, same ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
}

void source_advise(const struct quality *q)
{
	CLEANUP(freep) char *package = NULL;
	char hint[QUALITY_HINT];

	if (!*quality_hint(q, NULL, hint))
		return;
	if (q->path && q->build_id)
		package = package_of_symbols(q->path, q->build_id);
	log_info("%s", quality_hint(q, package, hint));
}

bool source_trouble(const struct store_answer *a)
{
	uint64_t bad = a->damaged - MIN(a->damaged, a->refused + a->newer);
	const char *where = a->trouble[0] ? a->trouble : "the server's log tells which";

	if (a->refused)
		log_warn("%llu files of the store may not be read by this user (%s): there is more "
			 "than what is shown; run with sudo, or ask the server",
			 (unsigned long long)a->refused, where);
	if (a->newer)
		log_warn("%llu files of the store were written by a newer version of smolder (%s): "
			 "there is more than what is shown, for that version",
			 (unsigned long long)a->newer, where);
	if (bad)
		log_warn("%llu files of the store are damaged (%s): there was more than what is "
			 "shown",
			 (unsigned long long)bad, where);
	return a->damaged;
}

const char *source_hint(const struct source *s)
{
	return s->hint;
}

/* What a server says of itself, for json_decref(); NULL after saying why it does not. */
static json_t *ask_status(struct source *s)
{
	CLEANUP(freep) char *url = mem_printf("%s/api/v1/status", s->url);
	json_t *status = NULL;

	ask_json(s, url, &status);
	return status;
}

static uint64_t json_number(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

bool source_span(struct source *s, uint64_t *ret_from_ms, uint64_t *ret_to_ms)
{
	struct store_stats stats = {};

	if (s->store) {
		store_stats(s->store, &stats);
	} else {
		json_auto_t *status = ask_status(s);
		const json_t *store = json_object_get(status, "store");
		stats.first_ms = json_number(store, "first");
		stats.last_ms = json_number(store, "last");
	}
	*ret_from_ms = stats.first_ms;
	/* Of a reader the last is a round number. */
	*ret_to_ms = MIN(stats.last_ms, clock_ms(CLOCK_REALTIME));
	return stats.last_ms > stats.first_ms;
}

uint64_t source_starting(struct source *s)
{
	uint64_t began = 0, now = clock_ms(CLOCK_REALTIME);

	if (s->store) {
		struct store_stats stats;
		store_stats(s->store, &stats);
		began = stats.writer_ms;
		return began + STARTING_MS > now ? began : 0;
	}
	json_auto_t *status = ask_status(s);
	if (strcmp(json_text(json_object_get(status, "collector"), "state"), "starting") == 0)
		began = json_number(status, "started");
	return began;
}

void source_report(const struct profile *p, const struct store_answer *a, const char *what)
{
	char from[32], to[32], samples[DESCRIBE_MAX], lost[DESCRIBE_MAX], shares[DESCRIBE_MAX];
	struct quality q;

	quality_of(p, &q);

	source_time(a->from_ms, from);
	source_time(a->to_ms, to);
	log_info("%s%s to %s: %s samples, %s lost%s", what, from, to,
		 describe_amount(a->samples, "", samples), describe_amount(a->lost, "", lost),
		 describe_quality(&q, shares));
	source_trouble(a);
	if (p->info.truncated)
		log_warn("%llu stacks were cut where they were too deep",
			 (unsigned long long)p->info.truncated);
	if (p->info.capped)
		log_warn("%llu samples were cut short: there are too many different stacks",
			 (unsigned long long)p->info.capped);
	source_advise(&q);
}
