#include "cli/service.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/privilege.h"
#include "cli/access_list.h"
#include "cli/cli.h"
#include "cli/store_dir.h"
#include "collect/sites_source.h"

enum { OPT_CONFIG = 1000 };

bool service_read_config(struct settings *s, const char *config)
{
	struct settings_error e;
	const char *path = config ? config : SERVICE_CONFIG;
	int err = settings_read(s, path, &e);

	if (!err && s->ignored)
		log_warn("the configuration %s has keys without effect here: %s", path, s->ignored);
	if (!err || (err == -ENOENT && !config))
		return true;
	log_error("cannot read the configuration %s: %s", path, e.text);
	return false;
}

bool service_reload(struct settings *s)
{
	struct settings fresh = {};
	struct settings_error e;

	for (int i = 0; i < SETTINGS; i++) {
		fresh.by_flag[i] = s->by_flag[i];
		if (s->by_flag[i] && s->values[i])
			fresh.values[i] = mem_strdup(s->values[i]);
		for (size_t k = 0; s->by_flag[i] && k < s->lists[i].count; k++)
			settings_set(&fresh, (enum setting)i, s->lists[i].items[k], &e);
	}
	fresh.config = s->config ? mem_strdup(s->config) : NULL;
	struct access_list allowed;
	if (!service_read_config(&fresh, fresh.config) || access_list_read(&fresh, &allowed)) {
		settings_done(&fresh);
		return false;
	}
	access_list_done(&allowed);
	settings_done(s);
	*s = fresh;
	return true;
}

int service_options(const char *command, int argc, char **argv, void (*help)(void),
		    struct settings *s)
{
	struct option options[SETTINGS + 6] = {};
	const char *config = NULL;
	struct settings_error e;
	int opt, n = 0;

	for (; n < SETTINGS; n++)
		options[n] = (struct option){settings_name((enum setting)n), required_argument,
					     NULL, 256 + n};
	options[n++] = (struct option){"config", required_argument, NULL, OPT_CONFIG};
	options[n++] = (struct option){"quiet", no_argument, NULL, 'q'};
	options[n++] = (struct option){"verbose", no_argument, NULL, 'v'};
	options[n++] = (struct option){"help", no_argument, NULL, 'h'};

	while ((opt = getopt_long(argc, argv, "F:qvh", options, NULL)) != -1) {
		if (opt == 'h') {
			help();
			return 0;
		}
		if (opt == 'q')
			log_level = LOG_QUIET;
		else if (opt == 'v')
			log_level = LOG_VERBOSE;
		else if (opt == OPT_CONFIG)
			config = optarg;
		else if (opt == '?')
			return cli_usage(command);
		else if (!settings_set(s, opt == 'F' ? SET_FREQUENCY : (enum setting)(opt - 256),
				       optarg, &e)) {
			log_error("--%s", e.text);
			return cli_usage(command);
		}
	}
	if (optind < argc) {
		log_error("%s takes no argument '%s'", command, argv[optind]);
		return cli_usage(command);
	}
	if (!service_read_config(s, config))
		return 1;
	free(s->config);
	s->config = config ? mem_strdup(config) : NULL;
	return -1;
}

void service_help(const enum setting *which)
{
	for (; *which != SETTINGS; which++) {
		const char *help = settings_help(*which);
		int arg = (int)strcspn(help, " ");
		char flag[64];
		snprintf(flag, sizeof(flag), "%s--%s %.*s", *which == SET_FREQUENCY ? "-F, " : "",
			 settings_name(*which), arg, help);
		printf("  %-24s %s\n", flag, help + arg + strspn(help + arg, " "));
	}
	puts("  --config FILE            YAML file with these options by name; flags win\n"
	     "                           (" SERVICE_CONFIG ")\n"
	     "  -q, --quiet              print nothing but errors\n"
	     "  -v, --verbose            print more\n"
	     "  -h, --help               print this help");
}

char *service_store_dir(const struct settings *s)
{
	const char *told = settings_text(s, SET_STORE);

	return told ? mem_strdup(told) : store_dir_default();
}

/* Each once, however often it was asked for. */
static void add_source(struct collecting_options *o, const struct source_kind *kind)
{
	for (unsigned i = 0; i < o->source_count; i++)
		if (o->sources[i].kind == kind)
			return;
	o->sources[o->source_count++].kind = kind;
}

char *service_collecting_options(const struct settings *s, struct collecting_options *o)
{
	char *cache = cli_cache_dir();

	const struct settings_list *events = settings_list(s, SET_EVENTS);

	o->frequency = settings_number(s, SET_FREQUENCY);
	add_source(o, source_find(SOURCE_ALWAYS));
	for (size_t i = 0; i < events->count; i++)
		add_source(o, source_find(events->items[i]));
	if (settings_number(s, SET_OFFCPU) && o->source_count < SOURCES_MAX)
		add_source(o, &sites_source);
	o->no_findings = !settings_number(s, SET_FINDINGS);
	o->host = settings_text(s, SET_HOST);
	o->host_root = settings_text(s, SET_HOST_ROOT);
	o->expects_pods = settings_text(s, SET_KUBELET);
	o->table_bytes = settings_number(s, SET_TABLES);
	o->lines = (const char *const *)settings_list(s, SET_LINES)->items;
	o->threads = (const char *const *)settings_list(s, SET_THREADS)->items;
	o->waits.idle = (const char *const *)settings_list(s, SET_IDLE_IN)->items;
	o->waits.blocked = (const char *const *)settings_list(s, SET_BLOCKED_IN)->items;
	o->cache_dir = cache;
	return cache;
}

/* Debian's kernels begin with perf_event_paranoid 3, which refuses events even to CAP_PERFMON. */
static bool needs_admin(void)
{
	CLEANUP(freep) char *text = NULL;

	if (file_read("/proc/sys/kernel/perf_event_paranoid", 64, &text, NULL) != 0)
		return false;
	return strtol(text, NULL, 10) > 2;
}

struct bpf_costs *service_bpf_costs(const struct collecting_options *o)
{
	struct bpf_costs *costs = NULL;
	int err = o->no_findings ? 0 : bpf_costs_new(&costs);

	if (err)
		log_info("what BPF programs cost is not looked at: %s",
			 err == -EPERM ? "the kernel tells it only with CAP_SYS_ADMIN, which this "
					 "process does not have"
				       : strerror(-err));
	return costs;
}

int service_confine_collector(unsigned *ret_missing)
{
	bool admin = needs_admin();

	if (admin)
		log_info("keeping CAP_SYS_ADMIN: with kernel.perf_event_paranoid above 2 it is "
			 "needed to sample CPUs that come online later");
	char missing[256];
	int err = privilege_keep_collector(admin, missing, sizeof(missing), ret_missing);
	if (!err && *ret_missing)
		log_warn("the collector was started without %s: functions of some processes will "
			 "have no names; 'smolder doctor' says more",
			 missing);
	err = err ? err : privilege_filter_collector();
	if (err)
		log_error("cannot drop privileges: %s", strerror(-err));
	return err;
}
