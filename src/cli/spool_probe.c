#include "cli/spool_probe.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/spool_dir.h"
#include "forward/forward_status.h"

#define STATUS_MAX (64u << 10)
#define SILENT_S   60 /* an agent that runs writes every five seconds */

/* The sum of a metric's values. */
static double value_of(const char *text, const char *name)
{
	size_t len = strlen(name);
	double sum = 0;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "smolder_agent_", 14) != 0 ||
		    strncmp(line + 14, name, len) != 0 || !strchr(" {", line[14 + len]))
			continue;
		const char *end = line + strcspn(line, "\n");
		const char *space = memrchr(line, ' ', (size_t)(end - line));
		sum += space ? strtod(space, NULL) : 0;
	}
	return sum;
}

static bool probe_one(const char *dir, const char *name, struct probe_item *it)
{
	CLEANUP(freep) char *path = mem_printf("%s/%s/" FORWARD_STATUS, dir, name);
	CLEANUP(freep) char *text = NULL;

	if (file_read(path, STATUS_MAX, &text, NULL) != 0)
		return false;
	double waiting = value_of(text, "windows_waiting");
	double lost = value_of(text, "samples_lost_total");
	double since = value_of(text, "oldest_waiting_timestamp_seconds");
	double now = (double)clock_ms(CLOCK_REALTIME) / 1000;
	bool is_up = value_of(text, "far_side_up") > 0;

	*it = (struct probe_item){.name = "agent",
				  .state = is_up && lost <= 0 ? PROBE_OK : PROBE_INFO};
	snprintf(it->text, sizeof(it->text),
		 "%.100s: %.0f samples sent, %.0f lost; %.0f windows wait%s", name,
		 value_of(text, "samples_sent_total"), lost, waiting,
		 is_up ? ", and the far side answers" : ", and the far side does not answer");
	if (waiting > 0 && now - since > SILENT_S)
		snprintf(it->text + strlen(it->text), sizeof(it->text) - strlen(it->text),
			 ", the oldest since %.0f minutes", (now - since) / 60);
	if (lost > 0)
		snprintf(it->fix, sizeof(it->fix),
			 "what was lost, and why: samples_lost_total in %.300s; --spool-max keeps "
			 "more",
			 path);
	return true;
}

size_t spool_probe(struct probe_item *items)
{
	CLEANUP(freep) char *dir = spool_dir_default("");
	DIR *d = dir ? opendir(dir) : NULL;
	size_t n = 0;

	for (struct dirent *e; d && n < SPOOL_PROBE_MAX && (e = readdir(d));)
		if (*e->d_name != '.')
			n += probe_one(dir, e->d_name, &items[n]);
	if (d)
		closedir(d);
	return n;
}
