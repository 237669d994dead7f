/*
 * module_watch: when modules of the kernel were last loaded or unloaded. From then on, their
 * addresses may belong to another module.
 */
#pragma once

#include <stdint.h>

struct module_watch;

/* 0, also where the kernel has no modules, or -errno. */
int module_watch_new(struct module_watch **ret);
void module_watch_free(struct module_watch *w);

/* CLOCK_MONOTONIC; 0: not yet. Kernel names read after this time reflect that change or a later
 * one. */
uint64_t module_watch_changed_ns(const struct module_watch *w);
