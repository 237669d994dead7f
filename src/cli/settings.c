#include "cli/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/duration.h"
#include "base/fetch.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/rules_yaml.h"
#include "cli/scrape_yaml.h"
#include "cli/series_options.h"
#include "collect/source.h"
#include "forward/far.h"
#include "profile/relabel_yaml.h"
#include "serve/listen.h"
#include "serve/server.h"
#include "symbol/debug_cache.h"

#define FILE_MAX   (256u << 10)
#define LIST_MAX   256
#define SIZE_LEAST (1u << 20)

/* The defaults of others, as people write them. */
#define WRITTEN(number)  WRITTEN_(number)
#define WRITTEN_(number) #number
#define RETENTION        WRITTEN(STORE_RETENTION_DAYS) "d"
#define MAX_SIZE         WRITTEN(STORE_MAX_GIB) "GiB"
#define SYMBOLS_MAX      WRITTEN(DEBUG_CACHE_GIB) "GiB"
#define TIMES            WRITTEN(STORE_TIMES_HOURS) "h"
#define SPOOL_MAX        "256MiB"
#define DEADLINE         WRITTEN(SERVER_DEADLINE_S) "s"

enum kind {
	TEXT,
	DURATION,
	SIZE,
	NUMBER,
	LIST,
	LABEL,
	SELECTOR,
	EVENTS,
	LISTEN,
	URL,
	URLS,
	FAR_URL,
	HEADER,
	YES_NO,
	MIGRATE
};

static const struct {
	const char *name;
	enum kind kind;
	const char *fallback; /* NULL: none */
	const char *help;
} table[SETTINGS] = {
	[SET_STORE] = {"store", TEXT, NULL,
		       "DIR  directory of the store (/var/lib/smolder as root), or clickhouse://…"},
	[SET_MIGRATE] = {"migrate", MIGRATE, "no",
			 "yes|no|print  first create the tables of a database, or print them (no)"},
	[SET_LISTEN] = {"listen", LISTEN, SERVER_LISTEN,
			"ADDR:PORT  address to listen on (" SERVER_LISTEN ")"},
	[SET_RETENTION] = {"retention", DURATION, RETENTION,
			   "TIME  how long profiles are kept (" RETENTION ")"},
	[SET_MAX_SIZE] = {"max-size", SIZE, MAX_SIZE,
			  "SIZE  limit of the store's size (" MAX_SIZE ")"},
	[SET_TIMES] = {"times", DURATION, TIMES,
		       "TIME  how long the times of single samples are kept (" TIMES ")"},
	[SET_FREQUENCY] = {"frequency", NUMBER, "99", "HZ  samples per second per CPU (99)"},
	[SET_EVENTS] = {"events", EVENTS, NULL,
			"EVENT  also sample this event, such as page-faults; repeatable"},
	[SET_OFFCPU] = {"offcpu", YES_NO, "no",
			"yes|no  keep what threads wait for, and how long, by stack (no)"},
	[SET_FINDINGS] = {"findings", YES_NO, "yes",
			  "yes|no  look for what is wrong, and say it (yes)"},
	[SET_USER] = {"user", TEXT, NULL,
		      "NAME  user that has the network, and no privileges (see smolder-run(1))"},
	[SET_HOST] = {"host", TEXT, NULL, "NAME  value of the label host (this machine's name)"},
	[SET_HOST_ROOT] = {"host-root", TEXT, NULL,
			   "DIR  where the host's files are, if not at / (in a container)"},
	[SET_LABEL] = {"label", LABEL, NULL,
		       "NAME=VALUE  give every series this label; repeatable"},
	[SET_KEEP] = {"keep", SELECTOR, NULL, "SELECTOR  keep only series like these; repeatable"},
	[SET_DROP] = {"drop", SELECTOR, NULL, "SELECTOR  keep no series like these; repeatable"},
	[SET_KUBELET] = {"kubelet", URL, NULL,
			 "URL  ask this kubelet for the names of its pods, such as "
			 "https://NODE:10250"},
	[SET_KUBELET_TOKEN] = {"kubelet-token", TEXT, NULL,
			       "FILE  its token (that of the service account, if there is one)"},
	[SET_KUBELET_CA] = {"kubelet-ca", TEXT, NULL, "FILE  its CA certificates, likewise"},
	[SET_POD_LABEL] = {"pod-label", LIST, NULL,
			   "KEY  this label of a pod becomes one of its series; repeatable"},
	[SET_TABLES] = {"tables", SIZE, "24MiB", "SIZE  memory limit for unwind tables (24MiB)"},
	[SET_LINES] = {"lines", LIST, NULL,
		       "COMM  keep source lines of processes with this name; repeatable"},
	[SET_THREADS] = {"threads", LIST, NULL,
			 "COMM  keep threads of processes with this name apart; repeatable"},
	[SET_IDLE_IN] = {"idle-in", LIST, NULL,
			 "FUNCTION  threads that wait in this function are idle; repeatable"},
	[SET_BLOCKED_IN] =
		{"blocked-in", LIST, NULL,
		 "FUNCTION  threads that wait in this function are not idle; repeatable"},
	[SET_TO] = {"to", FAR_URL, NULL,
		    "URL  server to send profiles to; otlp+URL, pyroscope+URL for others than "
		    "smolder's"},
	[SET_SPOOL] = {"spool", TEXT, NULL,
		       "DIR  where profiles wait that are not sent (below /var/spool/smolder as "
		       "root)"},
	[SET_SPOOL_MAX] = {"spool-max", SIZE, SPOOL_MAX,
			   "SIZE  limit of that; the oldest are dropped (" SPOOL_MAX ")"},
	[SET_BASIC_AUTH] = {"basic-auth", TEXT, NULL,
			    "FILE  file whose first line is USER:PASSWORD, for the server"},
	[SET_HEADER] = {"header", HEADER, NULL,
			"NAME:VALUE  send this header, such as X-Scope-OrgID: team; repeatable"},
	[SET_DEADLINE] = {"deadline", DURATION, DEADLINE,
			  "TIME  limit for answering a query (" DEADLINE ")"},
	[SET_NAMES] = {"names", TEXT, NULL,
		       "NAME,...  host names accepted in requests, besides this machine's own"},
	[SET_WINDOWS_FD] = {"windows-fd", NUMBER, NULL,
			    "N  also receive profiles on this inherited SOCK_SEQPACKET socket"},
	[SET_TOKEN_FILE] = {"token-file", TEXT, NULL,
			    "FILE  file whose first line is the token; needed except on loopback"},
	[SET_CA_FILE] = {"ca-file", TEXT, NULL,
			 "FILE  trust the CA certificates in this PEM file, for https"},
	[SET_DEBUGINFOD] = {"debuginfod", URLS, NULL,
			    "URL  ask this debuginfod server for names, or nobody: no; repeatable"},
	[SET_SYMBOLS_MAX] = {"symbols-max", SIZE, SYMBOLS_MAX,
			     "SIZE  limit of the debug files that are kept (" SYMBOLS_MAX ")"},
	[SET_ALLOW_USER] = {"allow-user", LIST, NULL,
			    "NAME  give this user access without the token; repeatable"},
	[SET_ALLOW_GROUP] =
		{"allow-group", LIST, NULL,
		 "NAME  give this group's members access without the token; repeatable"},
	[SET_TLS_CERT] = {"tls-cert", TEXT, NULL, "FILE  server certificate, PEM"},
	[SET_TLS_KEY] = {"tls-key", TEXT, NULL, "FILE  its private key, PEM"},
};

void settings_done(struct settings *s)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		free(s->values[i]);
		for (size_t k = 0; k < s->lists[i].count; k++)
			free(s->lists[i].items[k]);
		free(s->lists[i].items);
	}
	relabel_free(s->relabel);
	rules_free(s->rules);
	scrape_config_free(s->scrape);
	free(s->ignored);
	free(s->config);
	*s = (struct settings){};
}

const char *settings_name(enum setting which)
{
	return table[which].name;
}

const char *settings_help(enum setting which)
{
	return table[which].help;
}

/* "2GiB", "500M" in bytes. False if it is not one. */
static bool parse_size(const char *text, uint64_t *ret_bytes)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {{"", 1},
		     {"b", 1},
		     {"k", 1ull << 10},
		     {"kb", 1000},
		     {"kib", 1ull << 10},
		     {"m", 1ull << 20},
		     {"mb", 1000000},
		     {"mib", 1ull << 20},
		     {"g", 1ull << 30},
		     {"gb", 1000000000},
		     {"gib", 1ull << 30},
		     {"t", 1ull << 40},
		     {"tb", 1000000000000},
		     {"tib", 1ull << 40}};
	char *unit;

	errno = 0;
	uint64_t n = strtoull(text, &unit, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcasecmp(units[i].name, unit) == 0)
			return !__builtin_mul_overflow(n, units[i].bytes, ret_bytes);
	return false;
}

static bool is_no(const char *value)
{
	return strcmp(value, "no") == 0 || strcmp(value, "false") == 0;
}

/* One that we do not make ourselves, and no more than one. */
static bool is_header(const char *text)
{
	static const char *const own[] = {"host",           "content-type",
					  "content-length", "content-encoding",
					  "authorization",  "user-agent"};
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789-_");

	if (!len || text[len] != ':')
		return false;
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strlen(own[i]) == len && strncasecmp(own[i], text, len) == 0)
			return false;
	return true;
}

static bool parse(enum setting which, const char *value, uint64_t *ret)
{
	char *end;

	switch (table[which].kind) {
	case DURATION:
		return duration_parse_ms(value, 0, ret) == 0 && *ret;
	case SIZE:
		return parse_size(value, ret) && *ret >= SIZE_LEAST;
	case NUMBER:
		*ret = strtoull(value, &end, 10);
		return *value >= '0' && *value <= '9' && !*end && *ret > 0 && *ret <= 10000;
	case LISTEN:
		return listen_is_valid(value);
	case URL:
		return fetch_is_url(value);
	case FAR_URL:
		return far_is_url(value);
	case HEADER:
		return is_header(value);
	case URLS:
		return fetch_is_url(value) || is_no(value);
	case EVENTS: /* but for another clock: that is sampled in any case */
		return source_find(value) && !source_find(value)->is_clock;
	case YES_NO:
		*ret = strcmp(value, "yes") == 0 || strcmp(value, "true") == 0;
		return *ret || is_no(value);
	case MIGRATE:
		return is_no(value) || strcmp(value, "yes") == 0 || strcmp(value, "print") == 0;
	case LABEL:
		return series_options_is_label(value);
	case SELECTOR:
		return series_options_is_selector(value);
	case TEXT:
	case LIST:
		break;
	}
	return value[0];
}

static bool is_list(enum setting which)
{
	enum kind kind = table[which].kind;

	return kind == LIST || kind == EVENTS || kind == LABEL || kind == SELECTOR ||
	       kind == URLS || kind == HEADER;
}

static bool put(struct settings *s, enum setting which, const char *value,
		struct settings_error *ret_err)
{
	static const char *const wants[] = {
		[TEXT] = "a text",
		[DURATION] = "a time like 30d, 12h or 90m",
		[SIZE] = "a size like 2GiB or 500MB, of 1 MiB at least",
		[NUMBER] = "a number from 1 to 10000",
		[LIST] = "a name",
		[LABEL] = "NAME=VALUE, with a name of letters, digits and _",
		[SELECTOR] = "a selector such as '{unit=\"ssh.service\"}'",
		[EVENTS] = "an event that is no clock, such as page-faults",
		[LISTEN] = "ADDRESS:PORT, with a port up to 65535",
		[YES_NO] = "yes or no",
		[MIGRATE] = "yes, no or print",
		[URL] = "a URL such as http://collector:7117",
		[FAR_URL] = ("a URL such as http://collector:7117, otlp+http://host:4318 or "
			     "pyroscope+https://host:4040, without a name or password in it"),
		[HEADER] = "NAME: VALUE; Authorization comes from --token-file or --basic-auth",
		[URLS] = "a URL such as https://debuginfod.elfutils.org, or no",
	};
	uint64_t n;

	if (!parse(which, value, &n)) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s takes %s, not '%.100s'",
			 table[which].name, wants[table[which].kind], value);
		return false;
	}
	if (!is_list(which)) {
		free(s->values[which]);
		s->values[which] = mem_strdup(value);
		return true;
	}
	struct settings_list *l = &s->lists[which];
	size_t most = table[which].kind == EVENTS ? SOURCES_MAX - 1 : LIST_MAX;
	if (l->count == most) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s takes at most %zu names",
			 table[which].name, most);
		return false;
	}
	l->items = mem_resize_array(l->items, l->count + 2, sizeof(*l->items));
	l->items[l->count++] = mem_strdup(value);
	l->items[l->count] = NULL;
	return true;
}

bool settings_set(struct settings *s, enum setting which, const char *value,
		  struct settings_error *ret_err)
{
	s->by_flag[which] = true;
	return put(s, which, value, ret_err);
}

/* Names may be written with - or _. */
static int find(const char *name)
{
	for (int i = 0; i < SETTINGS; i++) {
		const char *a = table[i].name, *b = name;
		while (*a && (*a == *b || (*a == '-' && *b == '_')))
			a++, b++;
		if (!*a && !*b)
			return i;
	}
	return -1;
}

static bool put_node(struct settings *s, yaml_document_t *doc, int which, yaml_node_t *value,
		     struct settings_error *e)
{
	if (s->by_flag[which])
		return true;
	if (value->type == YAML_SCALAR_NODE)
		return put(s, (enum setting)which, (const char *)value->data.scalar.value, e);
	if (value->type == YAML_SEQUENCE_NODE && is_list((enum setting)which)) {
		for (yaml_node_item_t *i = value->data.sequence.items.start;
		     i < value->data.sequence.items.top; i++) {
			yaml_node_t *item = yaml_document_get_node(doc, *i);
			if (!item || item->type != YAML_SCALAR_NODE)
				break;
			if (!put(s, (enum setting)which, (const char *)item->data.scalar.value, e))
				return false;
		}
		return true;
	}
	snprintf(e->text, sizeof(e->text), "%s takes one value", table[which].name);
	return false;
}

/* These two: false with *e, which has the line. */
static bool put_relabelling(struct settings *s, yaml_document_t *doc, const yaml_node_t *list,
			    struct settings_error *e)
{
	struct relabel_error why = {};

	relabel_free(s->relabel);
	s->relabel = relabel_new();
	if (relabel_yaml_read(doc, list, s->relabel, &why) == 0)
		return true;
	snprintf(e->text, sizeof(e->text), "%s", why.text);
	return false;
}

static bool put_rules(struct settings *s, yaml_document_t *doc, const yaml_node_t *list,
		      struct settings_error *e)
{
	struct rules_error why;

	rules_free(s->rules);
	s->rules = rules_new();
	if (rules_yaml_read(doc, list, s->rules, &why))
		return true;
	snprintf(e->text, sizeof(e->text), "%s", why.text);
	return false;
}

static bool put_scraping(struct settings *s, struct scrape_yaml *y, const yaml_node_t *list,
			 struct settings_error *e)
{
	scrape_config_free(s->scrape);
	s->scrape = scrape_config_new();
	if (scrape_yaml_read(y, list, s->scrape))
		return true;
	snprintf(e->text, sizeof(e->text), "%s", y->err->text);
	return false;
}

static const char *name_of(yaml_document_t *doc, const yaml_node_pair_t *p)
{
	const yaml_node_t *key = yaml_document_get_node(doc, p->key);

	return key && key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";
}

/* What is more than a value. True: it was one of these; false in *ret_good after *e. */
static bool put_section(struct settings *s, struct scrape_yaml *y, const char *name,
			const yaml_node_t *value, struct settings_error *e, bool *ret_good)
{
	static const char *const parcas[] = {"debug_info", "object_storage"};

	if (strcmp(name, "relabel_configs") == 0) {
		*ret_good = put_relabelling(s, y->doc, value, e);
		return true;
	}
	if (strcmp(name, "rules") == 0) {
		*ret_good = put_rules(s, y->doc, value, e);
		return true;
	}
	if (strcmp(name, "scrape_configs") == 0) {
		*ret_good = put_scraping(s, y, value, e);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(parcas); i++)
		if (strcmp(name, parcas[i]) == 0) {
			fprintf(y->ignored, ", %s", name);
			return true;
		}
	return strcmp(name, "global") == 0; /* it was read before */
}

static bool put_key(struct settings *s, struct scrape_yaml *y, const yaml_node_pair_t *p,
		    struct settings_error *e)
{
	const yaml_node_t *key = yaml_document_get_node(y->doc, p->key);
	yaml_node_t *value = yaml_document_get_node(y->doc, p->value);
	const char *name = name_of(y->doc, p);
	char why[sizeof(e->text)];
	bool good = true;

	if (value && put_section(s, y, name, value, e, &good))
		return good;
	int which = find(name);
	if (!key || which < 0 || !value) {
		snprintf(e->text, sizeof(e->text), "line %zu: '%.64s' is no setting",
			 key ? key->start_mark.line + 1 : 0, name);
		return false;
	}
	if (put_node(s, y->doc, which, value, e))
		return true;
	snprintf(why, sizeof(why), "%s", e->text);
	snprintf(e->text, sizeof(e->text), "line %zu: %.200s", key->start_mark.line + 1, why);
	return false;
}

static bool put_document(struct settings *s, struct scrape_yaml *y, struct settings_error *e)
{
	const yaml_node_t *root = yaml_document_get_root_node(y->doc);

	if (!root)
		return true; /* an empty file */
	if (root->type != YAML_MAPPING_NODE) {
		snprintf(e->text, sizeof(e->text), "it should be lines of 'name: value'");
		return false;
	}
	const yaml_node_pair_t *first = root->data.mapping.pairs.start,
			       *end = root->data.mapping.pairs.top;
	for (const yaml_node_pair_t *p = first; p < end; p++) {
		if (strcmp(name_of(y->doc, p), "global") == 0 &&
		    !scrape_yaml_global(y, yaml_document_get_node(y->doc, p->value))) {
			snprintf(e->text, sizeof(e->text), "%s", y->err->text);
			return false;
		}
	}
	for (const yaml_node_pair_t *p = first; p < end; p++)
		if (!put_key(s, y, p, e))
			return false;
	return true;
}

/* `path` is that of the configuration: others in it are relative to where it is. */
static bool put_file(struct settings *s, yaml_document_t *doc, const char *path,
		     struct settings_error *e)
{
	const char *slash = strrchr(path, '/');
	CLEANUP(freep)
	char *dir = slash ? mem_strndup(path, (size_t)(slash - path)) : mem_strdup(".");
	struct scrape_yaml_error why = {};
	char *ignored = NULL;
	size_t len;
	struct scrape_yaml y = {.doc = doc, .dir = dir, .err = &why};

	y.ignored = open_memstream(&ignored, &len);
	bool good = put_document(s, &y, e);
	fclose(y.ignored);
	free(s->ignored);
	s->ignored = len ? mem_strdup(ignored + strlen(", ")) : NULL;
	free(ignored);
	return good;
}

int settings_read(struct settings *s, const char *path, struct settings_error *ret_err)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	int r = file_read(path, FILE_MAX, &text, &len);
	if (r) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s",
			 r == -EFBIG ? "it is larger than 256 KiB" : strerror(-r));
		return r;
	}

	yaml_parser_t parser;
	yaml_document_t doc;
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	bool good = yaml_parser_load(&parser, &doc);
	if (!good) {
		snprintf(ret_err->text, sizeof(ret_err->text), "line %zu: %s",
			 parser.problem_mark.line + 1,
			 parser.problem ? parser.problem : "not YAML");
	} else {
		good = put_file(s, &doc, path, ret_err);
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&parser);
	return good ? 0 : -EINVAL;
}

const char *settings_text(const struct settings *s, enum setting which)
{
	return s->values[which] ? s->values[which] : table[which].fallback;
}

const struct settings_list *settings_list(const struct settings *s, enum setting which)
{
	return &s->lists[which];
}

uint64_t settings_number(const struct settings *s, enum setting which)
{
	const char *text = settings_text(s, which);
	uint64_t n = 0;

	return text && parse(which, text, &n) ? n : 0;
}
