/* The tables: schema.sql, for the version of a server. */
#include <errno.h>

#include "clickhouse/clickhouse_internal.h"

extern const char _binary_schema_sql_start[], _binary_schema_sql_end[];

#define FOR_VERSION "/*20:"

char *clickhouse_schema(uint64_t version)
{
	const char *at = _binary_schema_sql_start, *end = _binary_schema_sql_end;
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	while (at < end) {
		const char *mark = memmem(at, (size_t)(end - at), FOR_VERSION, strlen(FOR_VERSION));
		const char *close = mark ? memmem(mark, (size_t)(end - mark), "*/", 2) : NULL;
		fwrite(at, 1, (size_t)((close ? mark : end) - at), f);
		if (!close)
			break;
		if (version >= 20)
			fwrite(mark + strlen(FOR_VERSION), 1,
			       (size_t)(close - mark) - strlen(FOR_VERSION), f);
		at = close + 2;
	}
	fclose(f);
	return text;
}

/* The next statement, without its semicolon; NULL: there are no more. Caller frees. */
static char *next_statement(const char **at)
{
	for (;;) {
		*at += strspn(*at, " \t\n");
		if (strncmp(*at, "--", 2) != 0)
			break;
		*at += strcspn(*at, "\n");
	}
	const char *end = strstr(*at, ";\n");
	char *statement = end ? mem_strndup(*at, (size_t)(end - *at)) : NULL;

	*at = end ? end + 2 : *at;
	return statement;
}

static int create(struct client *c, struct store_error *e)
{
	CLEANUP(freep)
	char *database = mem_printf("CREATE DATABASE IF NOT EXISTS %s", client_database(c));
	uint64_t version;
	int r = client_version(c, &version, e);

	r = r ? r : client_run(c, database, false, e);
	if (r)
		return r;
	CLEANUP(freep) char *schema = clickhouse_schema(version);
	const char *at = schema;
	for (char *one; !r && (one = next_statement(&at)); free(one))
		r = client_run(c, one, true, e);
	return r;
}

int clickhouse_migrate(const char *where, FILE *out, struct store_error *ret_err)
{
	struct store_options o = {};
	struct client *c;
	int r = client_new(where, &o, &c, ret_err);

	if (r)
		return r;
	if (out) {
		CLEANUP(freep) char *schema = clickhouse_schema(UINT64_MAX);
		fprintf(out, "CREATE DATABASE IF NOT EXISTS %s;\nUSE %s;\n\n%s", client_database(c),
			client_database(c), schema);
	} else {
		r = create(c, ret_err);
	}
	client_free(c);
	return r;
}
