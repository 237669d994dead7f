/*
 * module_watch: when modules of the kernel last came or went. From then on, their addresses may be
 * another's.
 */
#pragma once

#include <stdint.h>

struct module_watch;

/* 0, also where the kernel has no modules, or -errno. */
int module_watch_new(struct module_watch **ret);
void module_watch_free(struct module_watch *w);

/* CLOCK_MONOTONIC; 0: not yet. What is read later (the kernel's names) is of then, or newer. */
uint64_t module_watch_changed_ns(const struct module_watch *w);
