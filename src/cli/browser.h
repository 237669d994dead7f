/*
 * browser: opens a file that was written, in the browser of the user who called us.
 */
#pragma once

/*
 * Runs xdg-open in a session of its own; under sudo, as the user who called it. Warns if that
 * fails; the file is there all the same.
 */
void browser_show(const char *path);
