/*
 * findings: what was found, for people, as a colleague's note, and for programs, as JSON.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "store/store.h"

struct render_findings_options {
	uint64_t now_ms;  /* what is active then has no end */
	unsigned columns; /* of a terminal; 0: 80 */
	bool is_range;    /* of some time, not of now */
};

const char *render_findings_sureness(double sure); /* "almost certain", "likely", "maybe" */

void render_findings_text(const struct store_findings *f, const struct render_findings_options *o,
			  FILE *out);

/*
 * {"findings":[{"kind":…,"began":ms,"until":ms,"active":…,"pid":…,"tid":…,"comm":…,"thread":…,
 * "container":…,"host":…,"sure":…,"headline":…,"means":…,"next":…,"stack":…,"facts":{…}}],
 * "cut":false}
 */
void render_findings_json(const struct store_findings *f, uint64_t now_ms, FILE *out);
