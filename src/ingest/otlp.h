/*
 * otlp: profiles in OpenTelemetry's protocol, an ExportProfilesServiceRequest.
 *
 * The schema still changes: what knows it is this pair of files and otlp.proto. It is that of
 * opentelemetry-proto 1.11. Attributes of the resource become labels of the profile, and those of
 * samples that are words become labels of these; what other series call otherwise gets that name
 * (service.name is service, process.executable.name is comm). A span becomes the label span_id.
 */
#pragma once

#include "ingest/pushed.h"

#define OTLP_TABLE_MAX (1u << 20) /* entries in a table of the dictionary */

/* Adds profiles; false after an error. */
bool otlp_read(struct pushed *p, const void *body, size_t len, bool is_json, uint64_t now_ms);
