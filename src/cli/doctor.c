#include <errno.h>
#include <string.h>

#include "base/fetch.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/access_list.h"
#include "cli/cli.h"
#include "cli/query_client.h"
#include "cli/secrets.h"
#include "cli/service.h"
#include "cli/spool_probe.h"
#include "collect/probe.h"
#include "pipeline/trouble.h"
#include "pipeline/wait_rules.h"
#include "render/escape.h"
#include "serve/peer.h"

#define ANSWER_MAX (4u << 20)
#define TIMEOUT_MS 30000

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
	puts("Usage: smolder doctor [options]\n"
	     "\n"
	     "Checks what this kernel and your permissions allow, and says how to fix what they "
	     "do\n"
	     "not, and how agents of this machine fare. Exits with 0 if recording works, with 1 "
	     "if not.\n"
	     "\n"
	     "With --server, asks a running server for problems it and its collectors have met, "
	     "such\n"
	     "as lost samples, unreadable files and fallbacks, and says what they mean.\n"
	     "\n"
	     "      --server URL       ask this server, e.g. http://127.0.0.1:7117\n"
	     "      --token-file FILE  file whose first line is the server's token\n"
	     "      --ca-file FILE     trust the CA certificates in this PEM file, for https\n"
	     "      --json             print the same as JSON\n"
	     "      --wait-rules       print the rules by which a waiting thread is idle or "
	     "blocked\n"
	     "  -h, --help             print this help");
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
	struct access_list allowed;

	*it = (struct probe_item){.name = "access", .state = PROBE_INFO};
	settings_read(&s, SERVICE_CONFIG, &err);
	if (peer_check() != 0) {
		it->state = PROBE_WARN;
		snprintf(it->text, sizeof(it->text),
			 "this kernel does not tell which user opened a connection (it lacks "
			 "CONFIG_INET_DIAG), so access to 'run' or 'serve' needs a token");
		snprintf(it->fix, sizeof(it->fix), "--token-file FILE");
	} else if (access_list_read(&s, &allowed) == 0) {
		CLEANUP(freep) char *who = access_describe(&allowed.options);
		snprintf(it->text, sizeof(it->text),
			 "%.300s have access to a 'run' or 'serve' that you start here; "
			 "--allow-user "
			 "and --allow-group%s give it to others",
			 who, settings_text(&s, SET_TOKEN_FILE) ? ", and the token," : "");
		access_list_done(&allowed);
	} else {
		it->state = PROBE_WARN;
		snprintf(it->text, sizeof(it->text),
			 SERVICE_CONFIG " names a user or group that does not exist");
	}
	settings_done(&s);
}

/* ---- a server that runs -------------------------------------------------------------------- */

/* Its own counters that should stay 0. */
static const struct counter {
	const char *metric; /* up to its value; ends with {: whatever its labels are */
	const char *name;
	const char *means, *help;
} counters[] = {
	{"samples_lost_total{reason=\"ring_full\"}", "lost: ring full",
	 "samples were lost because the collector did not keep up", "lower --frequency"},
	{"samples_lost_total{reason=\"server_away\"}", "lost: server away",
	 "samples were lost because the server was unreachable for too long", ""},
	{"samples_lost_total{reason=\"malformed\"}", "lost: malformed",
	 "samples were lost because the kernel's records were malformed", "please report it"},
	{"samples_lost_total{reason=\"refused\"}", "lost: refused",
	 "samples were lost because their time was out of range", "check the clocks of agents"},
	{"samples_lost_total{reason=\"collector_died\"}", "lost: died",
	 "samples were lost when a collector was killed", "check the kernel log"},
	{"samples_other_total", "other",
	 "samples were stored as (other), or without a stack: a day had too many series or stacks",
	 ""},
	{"samples_rolled_other_total", "other, rolled up",
	 "samples were rolled up as (other), or without a stack: a month had too many series or "
	 "stacks",
	 ""},
	{"store_failed_total", "store failed", "windows could not be written at first",
	 "check free space and permissions of the store's directory"},
	{"store_refused_total", "store refused", "windows were out of range", "check the clocks"},
	{"store_damaged_files_total", "damaged files",
	 "files of the store were damaged and set aside", "check the disk"},
	{"store_untimed_packs_total", "packs without times",
	 "packs of windows have no times of samples, because there were too many: heatmaps and "
	 "exact "
	 "ranges lack them",
	 "lower --frequency"},
	{"collectors_forgotten_total", "collectors forgotten",
	 "dictionaries of collectors were dropped to limit memory: each is sent again when next "
	 "needed",
	 "use fewer agents per server"},
	{"windows_malformed_total", "malformed windows", "window messages could not be read",
	 "check what sends them"},
	{"http_refused_total", "requests refused",
	 "requests were refused: wrong host name, cross-origin, or no such path",
	 "--names NAME allows one"},
	{"pushes_refused_total{", "pushes refused", "requests with pushed profiles were refused",
	 "each was told why; smolder_pushes_refused_total has the reasons"},
	{"pushed_samples_without_labels_total", "pushed without labels",
	 "pushed samples were stored without labels of their own, because there were too many sets "
	 "of labels",
	 "push labels with few values"},
	{"pushed_spans_left_out_total", "pushed spans left out",
	 "pushed samples were stored without their span, because a profile had too many", ""},
	{"pushed_samples_cut_total", "pushed stacks cut",
	 "pushed samples have a shorter stack, because it or the profile was too large", ""},
	{"pushed_lines_skipped_total", "pushed lines skipped",
	 "lines of pushed text were not understood", "check what pushes them"},
	{"pushed_labels_left_out_total", "pushed labels left out",
	 "labels of pushed profiles were left out: too long, or too many", ""},
	{"scrape_targets{health=\"down\"}", "targets down",
	 "profiles of programs could not be fetched the last time",
	 "the page's Targets and /api/v1/targets tell which, and why"},
	{"scrape_targets_left_out", "targets left out",
	 "profiles of programs are not fetched: they are no addresses, or too many", ""},
	{"scrape_sources_failed_total", "targets not told",
	 "times that a file or URL did not tell the targets to scrape",
	 "see the server's log for which, and why"},
	{"scraped_samples_without_labels_total", "scraped without labels",
	 "scraped samples were stored without labels of their own, because there were too many "
	 "sets of labels",
	 "give profiles labels with few values"},
	{"scraped_spans_left_out_total", "scraped spans left out",
	 "scraped samples were stored without their span, because a profile had too many", ""},
	{"scraped_samples_cut_total", "scraped stacks cut",
	 "scraped samples have a shorter stack, because it or the profile was too large", ""},
	{"kubelet_failures_total", "kubelet failed",
	 "times the kubelet gave no list of its pods that can be used",
	 "see the server's log for why"},
	{"agent_kubelet_failures_total{", "kubelet failed",
	 "times an agent's kubelet gave no list of its pods that can be used",
	 "see the agent's log for why"},
	{"debuginfod_answers_total{answer=\"failed\"}", "debuginfod failed",
	 "requests to debuginfod servers failed, so the names of some programs are missing",
	 "see the server's log for which, and why"},
	{"debuginfod_answers_total{answer=\"wrong\"}", "debuginfod wrong",
	 "answers of debuginfod servers were not the file that was asked for, and are not used",
	 "see the server's log for which, and do not ask it: --debuginfod"},
	{"debuginfod_answers_total{answer=\"too_large\"}", "files too large",
	 "debug files were larger than a quarter of --symbols-max, and are not used",
	 "raise --symbols-max, and remove their marks: smolder symbols remove"},
	{"debuginfod_answers_total{answer=\"not_kept\"}", "debug files not kept",
	 "debug files could not be written to the store's directory", "check free space"},
	{"debuginfod_dropped_total", "debuginfod dropped",
	 "times a build id was not asked for, since too many were waiting", ""},
	{"debug_files_removed_total", "debug files removed",
	 "debug files made room for others, so the names of some programs are missing",
	 "raise --symbols-max"},
	{"debug_files_unreadable_total", "debug files damaged", "debug files could not be read",
	 "smolder symbols list, and smolder symbols remove"},
	{"http_turned_away_total", "turned away",
	 "requests came without the token, or from users "
	 "without access",
	 "--allow-user NAME, or a token"},
	{"http_unowned_total", "user unknown",
	 "connections on loopback were of a user that could not be determined, so they got access "
	 "only by a token",
	 ""},
	{"http_dropped_total", "connections dropped",
	 "connections were closed because there were too many, or they were too slow", ""},
	{"http_crowded_out_total", "bodies crowded out",
	 "requests were refused because the bodies of others took all the memory for them",
	 "send smaller ones, or fewer at a time"},
	{"queries_total{end=\"late\"}", "late queries", "queries took too long",
	 "use a shorter time range, or raise --deadline"},
	{"queries_total{end=\"refused\"}", "refused queries",
	 "queries were refused because too many were waiting", ""},
};

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static size_t put_item(struct probe_item *it, const char *name, bool ordinary, const char *text,
		       const char *help)
{
	*it = (struct probe_item){.name = name, .state = ordinary ? PROBE_INFO : PROBE_WARN};
	snprintf(it->text, sizeof(it->text), "%s", text);
	snprintf(it->fix, sizeof(it->fix), "%s", help);
	return 1;
}

/* Lines of "smolder_NAME{labels} VALUE"; troubles of all its collectors are added up. */
static size_t read_metrics(char *text, struct probe_item *items)
{
	uint64_t troubles[TROUBLES] = {};
	bool told = false; /* a collector of itself */
	char *save = NULL, sentence[TROUBLE_TEXT];
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *value = strrchr(line, ' '), *what = strstr(line, "what=\"");
		double v = value && starts(line, "smolder_") ? strtod(value, NULL) : 0;
		told |= starts(line, "smolder_collector_trouble_total{");
		if (!(v > 0 && v < 1e18))
			continue;
		const char *name = line + strlen("smolder_");
		if (starts(name, "collector_trouble_total{") && what) {
			what += strlen("what=\"");
			int kind = trouble_find(what, strcspn(what, "\""));
			if (kind >= 0 && trouble_kinds[kind].counter == TROUBLE_COUNT)
				troubles[kind] += (uint64_t)v;
			else if (kind >= 0)
				troubles[kind] = (uint64_t)v;
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
			const struct counter *c = &counters[i];
			char next = name[strnlen(name, strlen(c->metric))];
			bool any_labels = c->metric[strlen(c->metric) - 1] == '{';
			if (!starts(name, c->metric) || (next != ' ' && !any_labels))
				continue;
			snprintf(sentence, sizeof(sentence), "%.0f %s", v, c->means);
			n += put_item(&items[n], c->name, false, sentence, c->help);
		}
		if (n == ARRAY_SIZE(counters))
			break; /* a name twice: no server of ours */
	}
	if (!told)
		n += put_item(&items[n], "collectors", true,
			      "no collector has sent metrics yet; they do every ten seconds", "");
	for (int i = 0; i < TROUBLES; i++) {
		const struct trouble_kind *k = &trouble_kinds[i];
		if (!troubles[i])
			continue;
		trouble_sentence((enum trouble)i, troubles[i], sentence);
		n += put_item(&items[n], k->name, k->ordinary, sentence, k->help);
	}
	return n;
}

/* 0, or 1 after saying why there is no answer. */
static int ask_server(const char *url, const char *token_file, const char *ca_file,
		      struct probe_item *items, size_t *ret_count)
{
	CLEANUP(freep)
	char *full = mem_printf("%s/metrics", url);
	CLEANUP(freep) char *bearer = token_file ? secrets_bearer(token_file) : NULL;
	struct fetch_request request = {.url = full,
					.authorization = bearer,
					.ca_file = ca_file,
					.timeout_ms = TIMEOUT_MS,
					.max = ANSWER_MAX};
	struct fetch_answer answer = {};
	struct fetch_error why = {};

	if (token_file && !bearer)
		return 1;
	if (fetch(&request, &answer, &why) != 0) {
		log_error("cannot ask %s: %s", url, why.text);
		return 1;
	}
	bool ours = answer.status == 200 && strstr(answer.body, "smolder_build_info");
	if (ours)
		*ret_count = read_metrics(answer.body, items);
	else if (answer.status == 200)
		log_error("%s is not a smolder server", url);
	else
		log_error("%s answered with status %u: %.200s", url, answer.status,
			  answer.body ? answer.body : "");
	fetch_answer_done(&answer);
	return ours ? 0 : 1;
}

static void print_server_verdict(const struct probe_item *items, size_t count)
{
	size_t warns = 0;

	for (size_t i = 0; i < count; i++)
		warns += items[i].state == PROBE_WARN;
	if (count)
		putchar('\n');
	if (!count)
		puts("The server and its collectors lack nothing.");
	else if (!warns)
		puts("No problems: lines marked 'info' are normal in small numbers.");
	else
		puts("The lines marked 'warn' tell what its profiles lack.");
}

int cmd_doctor(int argc, char **argv)
{
	enum { OPT_JSON = 256, OPT_SERVER, OPT_TOKEN, OPT_CA, OPT_WAIT_RULES };
	static const struct option options[] = {
		{"server", required_argument, NULL, OPT_SERVER},
		{"token-file", required_argument, NULL, OPT_TOKEN},
		{"ca-file", required_argument, NULL, OPT_CA},
		{"json", no_argument, NULL, OPT_JSON},
		{"wait-rules", no_argument, NULL, OPT_WAIT_RULES},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	const char *server = NULL, *token_file = NULL, *ca_file = NULL;
	bool json = false;

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case OPT_JSON:
			json = true;
			break;
		case OPT_SERVER:
			server = optarg;
			break;
		case OPT_TOKEN:
			token_file = optarg;
			break;
		case OPT_WAIT_RULES:
			wait_rules_print(stdout);
			return 0;
		case OPT_CA:
			ca_file = optarg;
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

	if ((token_file || ca_file) && !server) {
		log_error("%s needs --server", token_file ? "--token-file" : "--ca-file");
		return cli_usage("doctor");
	}

	struct probe_item items[PROBE_MAX + 1 + SPOOL_PROBE_MAX + ARRAY_SIZE(counters) + TROUBLES];
	size_t count;
	CLEANUP(freep) char *url = server ? query_client_url(server) : NULL;
	if (server && !url)
		return cli_usage("doctor");
	if (server && ask_server(url, token_file, ca_file, items, &count))
		return 1;
	if (!server) {
		count = probe_all(items, PROBE_MAX);
		probe_access(&items[count++]);
		count += spool_probe(&items[count]);
	}
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
		if (server)
			print_server_verdict(items, count);
		else
			print_verdict(items, count);
	}
	if (cli_printed())
		return 1;
	return works ? 0 : 1;
}
