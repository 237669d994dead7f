#include "cli/query_client.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/fetch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "base/json_fields.h"
#include "cli/secrets.h"
#include "cli/store_dir.h"
#include "profile/snapshot.h"
#include "query/computed.h"
#include "query/selector.h"
#include "render/escape.h"
#include "serve/server.h"
#include "symbol/stored_names.h"

#define ANSWER_MAX (1u << 30)
#define JSON_MAX   (16u << 20) /* of an answer that is JSON */
#define NAMES_MAX  5000
#define LOCAL_PORT ":7117" /* of a server that is named without one */
#define LOCAL_URL  "http://" SERVER_LISTEN
#define PROBE_MS   1000
#define STARTING_MS                                                                                \
	30000 /* a writer that has stored nothing for longer has nobody to send it anything */
#define PROGRESS_MS 700 /* what is quicker needs no words */

struct query_client {
	char *bearer;        /* NULL: none */
	const char *ca;      /* file, of the command line; NULL: the system's */
	char *url;           /* a server's, without a slash at its end; NULL: the store */
	struct store *store; /* NULL: the server */
	struct debug_cache *debug_files; /* of the store */
	struct stored_names *names;
	uint64_t timeout_ms, began_ms;
	char *hint;       /* " --server URL", " --store DIR" or "" */
	const char *said; /* the selector that say_process() was last about; of the command line */
};

/* ---- options ------------------------------------------------------------------------------- */

void query_client_help(void)
{
	puts("      --server URL      ask this server instead of the local one\n"
	     "      --store DIR       read this store directly, without a server\n"
	     "      --token-file FILE file with the server's token\n"
	     "      --ca-file FILE    trust the CA certificates in this PEM file, for https\n"
	     "      --timeout TIME    give up after this time, such as 30s or 2m (no limit)");
}

bool query_client_owns(int opt)
{
	return opt >= CLIENT_SERVER && opt <= CLIENT_TIMEOUT;
}

char *query_client_url(const char *given)
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

bool query_client_set(struct query_client_options *o, int opt, const char *arg)
{
	if ((opt == CLIENT_SERVER && o->store) || (opt == CLIENT_STORE && o->server)) {
		log_error("--server and --store exclude each other");
		return false;
	}
	if (opt == CLIENT_SERVER) {
		CLEANUP(freep) char *url = query_client_url(arg);
		o->server = arg;
		return url;
	} else if (opt == CLIENT_STORE) {
		o->store = arg;
	} else if (opt == CLIENT_TOKEN) {
		o->token = arg;
	} else if (opt == CLIENT_CA) {
		o->ca = arg;
	} else if (duration_parse_ms(arg, 0, &o->timeout_ms) != 0 || !o->timeout_ms) {
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
	*ret_refuses =
		a.status == 403 && strstr(json_text(said, "error"), "has no access to this server");
	*ret_wants_token = a.status == 401 && strstr(a.headers, "realm=\"smolder\"");
	fetch_answer_done(&a);
	return ours;
}

/* What helps where the store of this user is not the one that was meant. */
static void say_no_store(const struct query_client_options *given, const char *dir, int err,
			 const struct store_error *why)
{
	if (err == -ENOENT && given->store)
		log_error("there is no store in %s; 'smolder run' creates one, by default in %s",
			  dir, STORE_DIR_SYSTEM);
	else if (err == -ENOENT)
		log_error("there is no store in %s, and no server answers on %s; 'smolder run' "
			  "creates and serves one, and --server or --store name another",
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
	const struct query_client *c = ctx;
	uint64_t waited = clock_ms(CLOCK_MONOTONIC) - c->began_ms;

	if (waited > PROGRESS_MS)
		log_progress("reading the store: %.0f %%", 100 * done);
	return !c->timeout_ms || waited < c->timeout_ms;
}

static bool open_store(struct query_client *c, const struct query_client_options *given,
		       const char *dir)
{
	struct store_options o = {.read_only = true, .progress = on_progress, .progress_ctx = c};
	struct store_error err = {};

	c->debug_files = debug_cache_new(dir, 0, false);
	c->names = stored_names_new(c->debug_files, NULL, NULL);
	o.name = stored_names_frame;
	o.name_ctx = c->names;
	int r = store_open(dir, &o, &c->store, &err);
	if (r)
		say_no_store(given, dir, r, &err);
	return !r;
}

struct query_client *query_client_open(const struct query_client_options *o)
{
	struct query_client *c = mem_alloc(sizeof(*c));
	CLEANUP(freep) char *dir = o->store ? mem_strdup(o->store) : store_dir_readable();

	bool wants_token = false, refuses = false;

	c->hint = o->server  ? mem_printf(" --server %s", o->server)
		  : o->store ? mem_printf(" --store %s", o->store)
			     : mem_strdup("");
	c->timeout_ms = o->timeout_ms;
	c->ca = o->ca;
	c->began_ms = clock_ms(CLOCK_MONOTONIC);
	c->bearer = o->token ? secrets_bearer(o->token) : NULL;
	if (o->token && !c->bearer) {
		query_client_close(c);
		return NULL;
	}
	if (o->server) {
		c->url = query_client_url(o->server);
		return c;
	} else if (!o->store && server_answers(LOCAL_URL, c->bearer, &wants_token, &refuses)) {
		c->url = mem_strdup(LOCAL_URL);
		return c;
	} else if (wants_token && (o->token || access(dir, R_OK) != 0)) {
		log_error("the server on %s requires %s token: --token-file FILE", SERVER_LISTEN,
			  o->token ? "another" : "its");
	} else if (refuses && access(dir, R_OK) != 0) {
		log_error("the server on %s does not give this user access: ask whoever started it "
			  "for --allow-user, or run this as a user who has access",
			  SERVER_LISTEN);
	} else if (open_store(c, o, dir)) {
		return c;
	}
	query_client_close(c);
	return NULL;
}

void query_client_close(struct query_client *c)
{
	if (!c)
		return;
	store_close(c->store);
	stored_names_free(c->names);
	debug_cache_free(c->debug_files);
	if (c->bearer)
		explicit_bzero(c->bearer, strlen(c->bearer));
	free(c->bearer);
	free(c->url);
	free(c->hint);
	free(c);
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
static void say_process(struct query_client *c, const char *word)
{
	if (c->said && strcmp(c->said, word) == 0)
		return;
	c->said = word;
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

static char *request_url(const struct query_client *c, const struct query_request *q,
			 const char *path, const char *format)
{
	char *url = NULL;
	size_t len;
	FILE *f = open_memstream(&url, &len);

	fprintf(f, "%s/api/v1/%s?from=%" PRIu64 "&to=%" PRIu64, c->url, path, q->range.from_ms,
		q->range.to_ms);
	if (q->selector)
		add_param(f, "query", q->selector);
	if (q->trace)
		add_param(f, "trace", q->trace);
	if (q->span)
		add_param(f, "span", q->span);
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
static void say_refusal(const struct query_client *c, const struct fetch_answer *a)
{
	json_auto_t *said = read_json(a);
	const char *text = json_text(said, "error");
	char clean[TEXT_MAX + 1];

	text_clean(text, strlen(text), clean);
	log_error("%s: %s (HTTP status %u)", c->url, *clean ? clean : "request refused", a->status);
}

static int ask_server(struct query_client *c, const char *url, size_t max, struct fetch_answer *ret)
{
	struct fetch_request r = {.url = url,
				  .authorization = c->bearer,
				  .ca_file = c->ca,
				  .timeout_ms = c->timeout_ms,
				  .max = max,
				  .wait = on_wait,
				  .wait_ctx = c};
	struct fetch_error err;

	int e = fetch(&r, ret, &err);
	log_progress_done();
	if (e) {
		log_error("cannot ask %s: %s", c->url, err.text);
		return 1;
	}
	if (ret->status != 200) {
		int code = ret->status == 400 ? EXIT_USAGE : 1;
		say_refusal(c, ret);
		fetch_answer_done(ret);
		return code;
	}
	return 0;
}

static int unreadable(const struct query_client *c, const char *why)
{
	log_error("cannot read the answer of %s: %s", c->url, why);
	return 1;
}

/* 0 with an object for json_decref(), or the exit status after saying why not. */
static int ask_json(struct query_client *c, const char *url, json_t **ret)
{
	struct fetch_answer a;

	int code = ask_server(c, url, JSON_MAX, &a);
	if (code)
		return code;
	json_t *answer = read_json(&a);
	fetch_answer_done(&a);
	if (!json_is_object(answer)) {
		json_decref(answer);
		return unreadable(c, "it is not a JSON object");
	}
	*ret = answer;
	return 0;
}

static int profile_by_server(struct query_client *c, const struct query_request *q,
			     struct profile *into, struct store_answer *ret)
{
	CLEANUP(freep) char *url = request_url(c, q, "query", "profile");
	struct fetch_answer a;

	int code = ask_server(c, url, ANSWER_MAX, &a);
	if (code)
		return code;
	if (q->selector && fetch_header_number(&a, "X-Smolder-Process"))
		say_process(c, q->selector);
	int r = snapshot_read(a.body, a.len, into);
	*ret = (struct store_answer){
		.from_ms = fetch_header_number(&a, "X-Smolder-From"),
		.to_ms = fetch_header_number(&a, "X-Smolder-To"),
		.samples = fetch_header_number(&a, "X-Smolder-Samples"),
		.lost = fetch_header_number(&a, "X-Smolder-Lost"),
		.damaged = fetch_header_number(&a, "X-Smolder-Damaged"),
		.debuginfod = fetch_header_number(&a, "X-Smolder-Debuginfod"),
	};
	fetch_answer_done(&a);
	return r ? unreadable(c, r == -EPROTONOSUPPORT ? "it comes from another version of smolder"
						       : strerror(-r))
		 : 0;
}

static int names_by_server(struct query_client *c, const struct query_request *q, const char *name,
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
	CLEANUP(freep) char *url = request_url(c, q, name ? path : "labels", NULL);
	int code = ask_json(c, url, &answer);
	if (code)
		return code;
	const json_t *list = json_object_get(answer, name ? "values" : "labels");
	if (!json_is_array(list))
		return unreadable(c, "it has no list of names");
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

static void read_finding(const json_t *from, struct finding *ret)
{
	const char *key;
	json_t *value;

	*ret = (struct finding){.began_ms = json_whole(from, "began"),
				.until_ms = json_whole(from, "until"),
				.pid = (uint32_t)json_whole(from, "pid"),
				.tid = (uint32_t)json_whole(from, "tid"),
				.sure = json_real_of(from, "sure")};
	FINDING_SET(ret->kind, json_text(from, "kind"));
	FINDING_SET(ret->comm, json_text(from, "comm"));
	FINDING_SET(ret->thread, json_text(from, "thread"));
	FINDING_SET(ret->container, json_text(from, "container"));
	FINDING_SET(ret->host, json_text(from, "host"));
	FINDING_SET(ret->headline, json_text(from, "headline"));
	FINDING_SET(ret->means, json_text(from, "means"));
	FINDING_SET(ret->next, json_text(from, "next"));
	FINDING_SET(ret->stack, json_text(from, "stack"));
	json_object_foreach(json_object_get(from, "facts"), key, value)
	{
		char name[sizeof(ret->facts[0].name)];
		FINDING_SET(name, key);
		finding_fact(ret, name, json_number_value(value));
	}
}

static int findings_by_server(struct query_client *c, const struct timerange *range,
			      struct store_findings *ret)
{
	struct query_request q = {.range = *range};
	CLEANUP(freep) char *url = request_url(c, &q, "findings", NULL);
	json_auto_t *answer = NULL;

	int code = ask_json(c, url, &answer);
	if (code)
		return code;
	const json_t *list = json_object_get(answer, "findings");
	if (!json_is_array(list))
		return unreadable(c, "it has no list of findings");
	*ret = (struct store_findings){.cut = json_is_true(json_object_get(answer, "cut"))};
	size_t count = MIN(json_array_size(list), (size_t)STORE_FINDINGS_MAX);
	ret->findings = mem_alloc_array(count + 1, sizeof(*ret->findings));
	for (; ret->count < count; ret->count++)
		read_finding(json_array_get(list, ret->count), &ret->findings[ret->count]);
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

static int begin_query(struct query_client *c, const struct query_request *q,
		       struct selector **ret_selector, struct store_query *ret)
{
	struct selector_error err = {};
	struct store_error why = {};

	if (selector_parse(q->selector ? q->selector : "cpu", ret_selector, &err) != 0) {
		log_error("%s", err.text);
		return EXIT_USAGE;
	}
	if ((q->trace && !selector_require_trace(*ret_selector, q->trace)) ||
	    (q->span && !selector_require_span(*ret_selector, q->span)))
		return EXIT_USAGE; /* cannot be: query has checked them */
	c->began_ms = clock_ms(CLOCK_MONOTONIC);
	int r = selector_resolve_by(*ret_selector, c->store, q->range.from_ms, q->range.to_ms,
				    &why);
	*ret = (struct store_query){
		.from_ms = q->range.from_ms,
		.to_ms = q->range.to_ms,
		.by = q->keep,
		.by_count = q->keep_count,
	};
	selector_query(*ret_selector, ret);
	if (q->selector && selector_is_process(*ret_selector))
		say_process(c, q->selector);
	return ended_badly(r, &why);
}

bool query_client_check(const char *selector)
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

int query_client_profile(struct query_client *c, const struct query_request *q,
			 struct profile *into, struct store_answer *ret)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	struct store_query query;
	struct store_error why = {};

	if (c->url)
		return profile_by_server(c, q, into, ret);
	int code = begin_query(c, q, &selector, &query);
	return code ? code : ended_badly(computed_sum(c->store, &query, into, ret, &why), &why);
}

int query_client_names(struct query_client *c, const struct query_request *q, const char *name,
		       struct store_names *ret)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	struct store_query query;
	struct store_error why = {};

	if (c->url)
		return names_by_server(c, q, name, ret);
	int code = begin_query(c, q, &selector, &query);
	if (code)
		return code;
	query.by = &name;
	query.by_count = name ? 1 : 0;
	query.max = NAMES_MAX;
	int r = computed_names(c->store, &query, name ? STORE_VALUES : STORE_LABELS, ret, &why);
	return ended_badly(r, &why);
}

int query_client_findings(struct query_client *c, const struct timerange *range,
			  struct store_findings *ret)
{
	struct store_query q = {.from_ms = range->from_ms, .to_ms = range->to_ms};
	struct store_error why = {};

	if (c->url)
		return findings_by_server(c, range, ret);
	c->began_ms = clock_ms(CLOCK_MONOTONIC);
	return ended_badly(store_findings(c->store, &q, ret, &why), &why);
}

char *query_client_subject(struct query_client *c, const struct query_request *q, const char *base)
{
	struct store_names hosts = {};

	/* Without it the title is shorter; what hinders it has been said by then. */
	if (query_client_names(c, q, "host", &hosts) != 0)
		hosts = (struct store_names){};
	char *subject = selector_subject(q->selector, base, &hosts);
	store_names_done(&hosts);
	return subject;
}

/* ---- what is stored ------------------------------------------------------------------------ */

const char *query_client_hint(const struct query_client *c)
{
	return c->hint;
}

const char *query_client_server(const struct query_client *c)
{
	return c->url;
}

struct store *query_client_store(const struct query_client *c)
{
	return c->store;
}

/* Makes all strings of an answer safe to show. */
static void clean_strings(json_t *answer)
{
	CLEANUP(freep) json_t **left = NULL; /* to be looked at */
	size_t count = 0, cap = 0, i;
	char clean[TEXT_MAX + 1];
	const char *key;
	json_t *one;

	MEM_GROW(left, count, cap);
	left[count++] = answer;
	while (count) {
		json_t *of = left[--count];
		const char *text = json_string_value(of);
		if (text && !text_is_plain(text, strlen(text))) {
			text_clean(text, strlen(text), clean);
			json_string_set(of, clean);
		}
		json_array_foreach(of, i, one)
		{
			MEM_GROW(left, count, cap);
			left[count++] = one;
		}
		json_object_foreach(of, key, one)
		{
			MEM_GROW(left, count, cap);
			left[count++] = one;
		}
	}
}

int query_client_json(struct query_client *c, const char *path, json_t **ret)
{
	CLEANUP(freep) char *url = mem_printf("%s%s", c->url, path);
	int code = ask_json(c, url, ret);

	if (!code)
		clean_strings(*ret);
	return code;
}

/* What a server says of itself, for json_decref(); NULL after saying why it does not. */
static json_t *ask_status(struct query_client *c)
{
	CLEANUP(freep) char *url = mem_printf("%s/api/v1/status", c->url);
	json_t *status = NULL;

	ask_json(c, url, &status);
	return status;
}

bool query_client_span(struct query_client *c, uint64_t *ret_from_ms, uint64_t *ret_to_ms)
{
	struct store_stats stats = {};

	if (c->store) {
		store_stats(c->store, &stats);
	} else {
		json_auto_t *status = ask_status(c);
		const json_t *store = json_object_get(status, "store");
		stats.first_ms = json_whole(store, "first");
		stats.last_ms = json_whole(store, "last");
	}
	*ret_from_ms = stats.first_ms;
	/* Of a reader the last is a round number. */
	*ret_to_ms = MIN(stats.last_ms, clock_ms(CLOCK_REALTIME));
	return stats.last_ms > stats.first_ms;
}

uint64_t query_client_starting(struct query_client *c)
{
	uint64_t began = 0, now = clock_ms(CLOCK_REALTIME);

	if (c->store) {
		struct store_stats stats;
		store_stats(c->store, &stats);
		began = stats.writer_ms;
		return began + STARTING_MS > now ? began : 0;
	}
	json_auto_t *status = ask_status(c);
	const char *state = json_text(json_object_get(status, "collector"), "state");
	/* "recording": the first window came since we asked. */
	if (strcmp(state, "starting") == 0 || strcmp(state, "recording") == 0)
		began = json_whole(status, "started");
	return began + STARTING_MS > json_whole(status, "now") ? began : 0; /* its own clock */
}
