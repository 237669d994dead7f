#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/privilege.h"
#include "cli/cli.h"
#include "cli/pod_names.h"
#include "cli/secrets.h"
#include "cli/series_options.h"
#include "cli/service.h"
#include "pipeline/collecting.h"
#include "pipeline/posting.h"

static void help(void)
{
	puts("Usage: smolder agent --to URL [options]\n"
	     "\n"
	     "Samples every process on this machine continuously and sends the profiles to a\n"
	     "server ('smolder serve' or 'smolder run' elsewhere) every ten seconds. While the\n"
	     "server cannot be reached, they wait in memory. Needs root, and keeps only the\n"
	     "capabilities it uses.\n"
	     "");
	service_help((const enum setting[]){
		SET_TO,      SET_FREQUENCY,     SET_EVENTS,     SET_OFFCPU,     SET_FINDINGS,
		SET_HOST,    SET_HOST_ROOT,     SET_LABEL,      SET_KEEP,       SET_DROP,
		SET_KUBELET, SET_KUBELET_TOKEN, SET_KUBELET_CA, SET_POD_LABEL,  SET_TABLES,
		SET_LINES,   SET_THREADS,       SET_IDLE_IN,    SET_BLOCKED_IN, SET_TOKEN_FILE,
		SET_CA_FILE, SETTINGS});
}

static int confine(struct collecting_options *o)
{
	return service_confine_collector(true, &o->missing_capabilities);
}

/* 0, or the exit code after saying why. */
static int open_transport(const struct settings *s, const char *url, struct posting **ret)
{
	const char *token = settings_text(s, SET_TOKEN_FILE);
	CLEANUP(freep) char *bearer = token ? secrets_bearer(token) : NULL;

	if (token && !bearer)
		return 1;
	int err = posting_new(url, bearer, settings_text(s, SET_CA_FILE), ret);
	if (err)
		log_error("cannot start a thread to send with: %s", strerror(-err));
	return err ? 1 : 0;
}

int cmd_agent(int argc, char **argv)
{
	struct settings s = {};
	int code = service_options("agent", argc, argv, help, &s);
	if (code >= 0)
		return code;

	/* Before anything that the process it splits off should not have. */
	struct collecting_options o = {.alive_fd = -1, .confine = confine};
	CLEANUP(freep) char *cache = service_collecting_options(&s, &o);
	const char *to = settings_text(&s, SET_TO);
	struct posting *p = NULL;
	struct pod_names names = {};
	o.pods = pod_names_source(&names, &s);
	if (!to) {
		log_error("agent needs --to URL, the server to send to");
		code = cli_usage("agent");
	} else {
		o.costs = service_bpf_costs(&o);
		code = open_transport(&s, to, &p);
	}
	if (!code) {
		struct series_options series;
		series_options_init(&series, &s);
		o.rules = series.rules;
		o.transport = posting_transport(p);
		do {
			code = collecting_run(&o);
			o.confine = NULL; /* what was given up stays so */
		} while (code == COLLECTING_RENEW);
		series_options_done(&series);
	}
	posting_free(p);
	bpf_costs_free(o.costs);
	settings_done(&s);
	return code;
}
