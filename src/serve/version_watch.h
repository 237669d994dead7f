/*
 * version_watch: looks every half hour whether a program costs more since it has a new version
 * (query/version_cost.h), and keeps that as a finding of the server's own for an hour.
 *
 * It looks on a thread of the jobs, like a query, and not at all while those are busy. A server
 * that was restarted finds the same again, under the same id.
 */
#pragma once

struct server;
struct version_watch;

struct version_watch *version_watch_new(struct server *s);
void version_watch_tick(struct version_watch *w); /* to be called every ten seconds */
void version_watch_free(struct version_watch *w); /* after jobs_free(); NULL is fine */
