/*
 * json_fields: fields of a JSON object, as plain values. What is missing, or of another type, is ""
 * or 0.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Borrowed. */
static inline const char *json_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static inline double json_real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* A whole number; a negative one is 0. */
static inline uint64_t json_whole(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}
