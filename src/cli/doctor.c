#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/allowed.h"
#include "cli/cli.h"
#include "cli/service.h"
#include "collect/probe.h"
#include "render/escape.h"
#include "serve/peer.h"

enum { WIDTH = 100, NAME_WIDTH = 20, INDENT = 8 + NAME_WIDTH };

static const struct {
	const char *word; /* of the table, and lower-cased of the JSON */
	const char *colour;
} states[] = {
	[PROBE_OK] = {"ok", "\033[32m"},
	[PROBE_INFO] = {"info", "\033[36m"},
	[PROBE_WARN] = {"warn", "\033[33m"},
	[PROBE_FAIL] = {"FAIL", "\033[1;31m"},
};

static void help(void)
{
	puts("Usage: smolder doctor [options]\n\n"
	     "Says, line by line, what this kernel and these permissions allow, and how to fix "
	     "what\n"
	     "they do not. Exits with 0 if recording can work, with 1 if not.\n\n"
	     "      --json   the same as JSON\n"
	     "  -h, --help   this text");
}

/* Prints words from the current column on, wrapped at WIDTH and indented to INDENT. */
static void print_wrapped(const char *text, size_t column)
{
	for (const char *s = text; *s;) {
		size_t len = strcspn(s, " ");
		if (s != text && column + 1 + len > WIDTH) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
		} else if (s != text) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)len, s);
		column += len;
		s += len + strspn(s + len, " ");
	}
	putchar('\n');
}

static void print_item(const struct probe_item *it, bool colour)
{
	printf("  %s%-4s%s  %-*s", colour ? states[it->state].colour : "", states[it->state].word,
	       colour ? "\033[0m" : "", NAME_WIDTH, it->name);
	print_wrapped(it->text, INDENT);
	if (*it->fix) {
		printf("%*sfix: ", INDENT, "");
		print_wrapped(it->fix, INDENT + strlen("fix: "));
	}
}

static void print_verdict(const struct probe_item *items, size_t count)
{
	size_t fails = 0, warns = 0;

	for (size_t i = 0; i < count; i++) {
		fails += items[i].state == PROBE_FAIL;
		warns += items[i].state == PROBE_WARN;
	}
	putchar('\n');
	if (!fails && !warns) {
		puts("Recording works here.");
		return;
	}
	if (!fails) {
		puts("Recording works here; the lines marked 'warn' tell what a profile will "
		     "lack.");
		return;
	}
	fputs("Recording cannot work here until this is fixed: ", stdout);
	for (size_t i = 0; i < count; i++)
		if (items[i].state == PROBE_FAIL)
			printf("%s%s", items[i].name, --fails ? ", " : ".\n");
}

static void print_json(const struct probe_item *items, size_t count, bool works)
{
	printf("{\"version\": \"" SMOLDER_VERSION "\", \"can_record\": %s, \"items\": [",
	       works ? "true" : "false");
	for (size_t i = 0; i < count; i++) {
		const char *word =
			items[i].state == PROBE_FAIL ? "fail" : states[items[i].state].word;
		printf("%s\n  {\"name\": ", i ? "," : "");
		escape_json(stdout, items[i].name, strlen(items[i].name));
		printf(", \"state\": \"%s\", \"text\": ", word);
		escape_json(stdout, items[i].text, strlen(items[i].text));
		fputs(", \"fix\": ", stdout);
		escape_json(stdout, items[i].fix, strlen(items[i].fix));
		putchar('}');
	}
	puts("\n]}");
}

/* As the configuration says, for a server that is started by who asks. */
static void probe_access(struct probe_item *it)
{
	struct settings s = {};
	struct settings_error err;
	struct allowed allowed;

	*it = (struct probe_item){.name = "who may look", .state = PROBE_INFO};
	settings_read(&s, SERVICE_CONFIG, &err);
	if (peer_check() != 0) {
		it->state = PROBE_WARN;
		snprintf(it->text, sizeof(it->text),
			 "this kernel does not say which user asks (CONFIG_INET_DIAG): nobody may "
			 "look at 'run' or 'serve' but who brings a token");
		snprintf(it->fix, sizeof(it->fix), "--token-file FILE");
	} else if (allowed_read(&s, &allowed) == 0) {
		CLEANUP(freep) char *who = access_describe(&allowed.options);
		snprintf(it->text, sizeof(it->text),
			 "%.300s, at 'run' or 'serve' that you start here; --allow-user and "
			 "--allow-group let others%s",
			 who, settings_text(&s, SET_TOKEN_FILE) ? ", and so does the token" : "");
		allowed_done(&allowed);
	} else {
		it->state = PROBE_WARN;
		snprintf(it->text, sizeof(it->text), SERVICE_CONFIG " names somebody unknown");
	}
	settings_done(&s);
}

int cmd_doctor(int argc, char **argv)
{
	enum { OPT_JSON = 256 };
	static const struct option options[] = {
		{"json", no_argument, NULL, OPT_JSON},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	bool json = false;

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case OPT_JSON:
			json = true;
			break;
		case 'h':
			help();
			return 0;
		default:
			return cli_usage("doctor");
		}
	}
	if (optind < argc) {
		log_error("doctor takes no argument '%s'", argv[optind]);
		return cli_usage("doctor");
	}

	struct probe_item items[PROBE_MAX + 1];
	size_t count = probe_all(items, PROBE_MAX);
	probe_access(&items[count++]);
	bool works = true;
	for (size_t i = 0; i < count; i++)
		works &= items[i].state != PROBE_FAIL;

	if (json) {
		print_json(items, count, works);
	} else {
		const char *no_colour = getenv("NO_COLOR");
		bool colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
		for (size_t i = 0; i < count; i++)
			print_item(&items[i], colour);
		print_verdict(items, count);
	}
	if (cli_printed())
		return 1;
	return works ? 0 : 1;
}
