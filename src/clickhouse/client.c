#include "clickhouse/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "base/fetch.h"
#include "base/file.h"
#include "base/mem.h"
#include "clickhouse/rowbinary.h"

#define ANSWER_MAX   ((size_t)512 << 20)
#define PASSWORD_MAX 4096
#define TIMEOUT_MS   120000
#define PORT         "8123"
#define TLS_PORT     "8443"
#define BOUNDARY     "smolder-4c81f2d07a9e5b36"

struct client {
	const struct store_options *o;
	char *url;            /* http://host:port */
	char *where, *server; /* the location, and "host:port": for messages */
	char *database, *headers, *ca_file;
};

__attribute__((format(printf, 2, 3))) static void say(struct store_error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

/* ---- the location ---------------------------------------------------------------------------- */

/* A name that can stand in SQL and in a URL as it is. */
static bool is_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z') &&
		    !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
			return false;
	return len > 0;
}

/* The value of an option behind the '?'; NULL: it was not given. Caller frees. */
static char *option(const char *options, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = options; at && *at; at = strchr(at, '&')) {
		at += *at == '&';
		if (strncmp(at, name, len) == 0 && at[len] == '=')
			return mem_strndup(at + len + 1, strcspn(at + len + 1, "&"));
	}
	return NULL;
}

static int check_options(const char *options, struct store_error *e)
{
	static const char *const known[] = {"password_file=", "tls=", "ca_file="};

	for (const char *at = options; at && *at; at = strchr(at, '&')) {
		bool is_known = false;
		at += *at == '&';
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			is_known |= strncmp(at, known[i], strlen(known[i])) == 0;
		if (!is_known) {
			say(e,
			    CLIENT_PREFIX "…?%.60s: unknown option; there are password_file=FILE, "
					  "tls=1 and ca_file=FILE",
			    at);
			return -EINVAL;
		}
	}
	return 0;
}

/* The password from its file, or the environment; "" if there is none. Caller frees *ret. */
static int password(const char *file, char **ret, struct store_error *e)
{
	const char *given = getenv(CLIENT_PASSWORD);

	if (!file) {
		*ret = mem_strdup(given ? given : "");
	} else {
		int r = file_read(file, PASSWORD_MAX, ret, NULL);
		if (r) {
			say(e, "cannot read ClickHouse's password in %s: %s", file, strerror(-r));
			return r;
		}
	}
	(*ret)[strcspn(*ret, "\r\n")] = '\0';
	return 0;
}

int client_new(const char *where, const struct store_options *o, struct client **ret,
	       struct store_error *ret_err)
{
	const char *at = where + strlen(CLIENT_PREFIX), *options = strchr(at, '?');
	size_t len = options ? (size_t)(options - at) : strlen(at);
	CLEANUP(freep) char *place = mem_strndup(at, len);
	char *user_end = strrchr(place, '@'), *host = user_end ? user_end + 1 : place;
	char *slash = strchr(host, '/');
	const char *database = slash && slash[1] ? slash + 1 : "default";
	CLEANUP(freep) char *secret = NULL, *tls = option(options ? options + 1 : NULL, "tls");
	CLEANUP(freep) char *file = option(options ? options + 1 : NULL, "password_file");

	int r = check_options(options ? options + 1 : NULL, ret_err);
	if (r)
		return r;
	if (slash)
		*slash = '\0';
	if (user_end)
		*user_end = '\0';
	const char *user = user_end ? place : "default";
	if (strchr(user, ':')) {
		say(ret_err, CLIENT_PREFIX
		    "…: a password does not belong in the location, where everybody "
		    "sees it: put it into a file and add ?password_file=FILE, or into "
		    "$" CLIENT_PASSWORD);
		return -EINVAL;
	}
	bool has_tls = tls && strcmp(tls, "0") != 0;
	const char *last = strrchr(host, ']');
	bool has_port = strchr(last ? last : host, ':');
	struct client *c = mem_alloc(sizeof(*c));
	c->o = o;
	c->where = mem_strdup(where);
	c->server =
		has_port ? mem_strdup(host) : mem_printf("%s:%s", host, has_tls ? TLS_PORT : PORT);
	c->url = mem_printf("http%s://%s", has_tls ? "s" : "", c->server);
	c->database = mem_strdup(database);
	c->ca_file = option(options ? options + 1 : NULL, "ca_file");
	if (!fetch_is_url(c->url) || !is_name(database, strlen(database)) || !*user ||
	    strpbrk(user, "\r\n")) {
		say(ret_err, "%.200s: not of the form " CLIENT_PREFIX "USER@HOST:PORT/DATABASE",
		    where);
		client_free(c);
		return -EINVAL;
	}
	r = password(file, &secret, ret_err);
	if (r) {
		client_free(c);
		return r;
	}
	c->headers = mem_printf("X-ClickHouse-User: %s\r\nX-ClickHouse-Key: %s\r\n", user, secret);
	explicit_bzero(secret, strlen(secret));
	*ret = c;
	return 0;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	if (c->headers)
		explicit_bzero(c->headers, strlen(c->headers));
	free(c->headers);
	free(c->url);
	free(c->where);
	free(c->server);
	free(c->database);
	free(c->ca_file);
	free(c);
}

const char *client_database(const struct client *c)
{
	return c->database;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool on_wait(void *ctx, uint64_t waited_ms, size_t received)
{
	const struct client *c = ctx;

	(void)waited_ms;
	(void)received;
	return !c->o->progress || c->o->progress(c->o->progress_ctx, 0);
}

static void put_escaped(FILE *f, const char *s)
{
	for (; *s; s++) {
		if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		    (*s >= '0' && *s <= '9') || strchr("-._~", *s))
			putc_unlocked(*s, f);
		else
			fprintf(f, "%%%02X", (unsigned char)*s);
	}
}

/* The server's own words say "Code: 60, … DB::Exception: …": what matters of them. */
static int refused(const struct client *c, const struct fetch_answer *a, struct store_error *e)
{
	const char *code = strstr(a->body, "Code: "), *words = strstr(a->body, "DB::Exception: ");
	unsigned long number = code ? strtoul(code + 6, NULL, 10) : 0;

	words = words ? words + strlen("DB::Exception: ") : a->body;
	if (number == 60 || number == 81) {
		say(e,
		    "ClickHouse on %s has no database %s, or a table in it is missing; 'smolder "
		    "serve "
		    "--store %s --migrate yes' creates them",
		    c->server, c->database, c->where);
		return -ENOENT;
	}
	if (a->status == 401 || a->status == 403 || number == 192 || number == 193 ||
	    number == 516) {
		say(e, "ClickHouse on %s refuses the user or the password", c->server);
		return -EACCES;
	}
	say(e, "ClickHouse on %s: %.*s (HTTP status %u)", c->server,
	    (int)MIN(strcspn(words, "\r\n"), (size_t)300), words, a->status);
	return number == 243 ? -ENOSPC : -EIO;
}

static int request(struct client *c, struct fetch_request *r, struct fetch_answer *ret,
		   struct store_error *e)
{
	struct fetch_error why = {};

	r->method = "POST";
	r->headers = c->headers;
	r->ca_file = c->ca_file;
	r->timeout_ms = TIMEOUT_MS;
	r->max = ANSWER_MAX;
	r->wait = on_wait;
	r->wait_ctx = c;
	int err = fetch(r, ret, &why);
	if (err == -ECANCELED)
		return err;
	if (err) {
		say(e, "ClickHouse on %s does not answer: %s", c->server, why.text);
		return err == -EFBIG ? err : -EIO;
	}
	if (ret->status == 200)
		return 0;
	err = refused(c, ret, e);
	fetch_answer_done(ret);
	return err;
}

/* The path of a request, with its parameters. `sql` NULL: it is the body. */
static char *path(const struct client *c, const char *sql, const char *more, bool database)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	fprintf(f, "%s/?wait_end_of_query=1%s%s%s", c->url, database ? "&database=" : "",
		database ? c->database : "", more);
	if (sql) {
		fputs("&query=", f);
		put_escaped(f, sql);
	}
	fclose(f);
	return text;
}

int client_run(struct client *c, const char *sql, bool database, struct store_error *ret_err)
{
	CLEANUP(freep) char *url = path(c, NULL, "", database);
	struct fetch_request r = {
		.url = url, .body = sql, .body_len = strlen(sql), .content_type = "text/plain"};
	struct fetch_answer a;
	int err = request(c, &r, &a, ret_err);

	if (!err)
		fetch_answer_done(&a);
	return err;
}

int client_insert(struct client *c, const char *table, const struct pack *rows,
		  struct store_error *ret_err)
{
	CLEANUP(freep) char *sql = mem_printf("INSERT INTO %s FORMAT RowBinary", table);
	CLEANUP(freep) char *url = path(c, sql, "&insert_distributed_sync=1", true);
	struct fetch_request r = {.url = url, .body = rows->bytes, .body_len = rows->len};
	struct fetch_answer a;

	if (!rows->len)
		return 0;
	int err = request(c, &r, &a, ret_err);
	if (!err)
		fetch_answer_done(&a);
	return err;
}

static struct pack multipart(const struct client_table *t)
{
	struct pack body = {};
	CLEANUP(freep)
	char *head = mem_printf("--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"; "
				"filename=\"%s\"\r\nContent-Type: application/octet-stream\r\n\r\n",
				t->name, t->name);

	pack_raw(&body, head, strlen(head));
	pack_raw(&body, t->rows->bytes, t->rows->len);
	pack_raw(&body, "\r\n--" BOUNDARY "--\r\n", strlen("\r\n--" BOUNDARY "--\r\n"));
	return body;
}

int client_ask(struct client *c, const char *sql, const struct client_table *table,
	       struct client_rows *ret, struct store_error *ret_err)
{
	CLEANUP(freep) char *whole = mem_printf("%s FORMAT RowBinary", sql);
	struct fetch_request r = {.body = whole, .body_len = strlen(whole)};
	struct fetch_answer a;
	struct pack body = {};
	char *more = NULL, *url;

	*ret = (struct client_rows){};
	if (table) {
		char *structure;
		size_t len;
		FILE *f = open_memstream(&structure, &len);
		fprintf(f, "&%s_format=RowBinary&%s_structure=", table->name, table->name);
		put_escaped(f, table->structure);
		fclose(f);
		more = structure;
		body = multipart(table);
		r.body = body.bytes;
		r.body_len = body.len;
		r.content_type = "multipart/form-data; boundary=" BOUNDARY;
	}
	r.url = url = path(c, table ? whole : NULL, more ? more : "", true);
	int err = request(c, &r, &a, ret_err);
	free(url);
	free(more);
	pack_done(&body);
	if (err)
		return err;
	ret->in = (struct unpack){(uint8_t *)a.body, (uint8_t *)a.body + a.len, false};
	ret->bytes = TAKE_PTR(a.body);
	fetch_answer_done(&a);
	return 0;
}

void client_rows_done(struct client_rows *r)
{
	free(r->bytes);
	*r = (struct client_rows){};
}

int client_version(struct client *c, uint64_t *ret, struct store_error *ret_err)
{
	CLEANUP(freep) char *url = path(c, NULL, "", false);
	static const char sql[] = "SELECT version() FORMAT RowBinary";
	struct fetch_request r = {.url = url, .body = sql, .body_len = strlen(sql)};
	struct fetch_answer a;
	size_t len;
	int err = request(c, &r, &a, ret_err);

	if (err)
		return err;
	struct unpack in = {(uint8_t *)a.body, (uint8_t *)a.body + a.len, false};
	const char *text = unpack_str(&in, 64, &len);
	*ret = in.bad ? 0 : strtoull(text, NULL, 10);
	fetch_answer_done(&a);
	if (!*ret)
		say(ret_err, "%s answers, but not as ClickHouse does", c->server);
	return *ret ? 0 : -EPROTO;
}
