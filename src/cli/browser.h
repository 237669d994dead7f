/*
 * browser: shows a file that was written, in the browser of whoever called us.
 */
#pragma once

/*
 * By xdg-open, in a session of its own; under sudo as the user who called it. Says why where that
 * cannot be: the file is there all the same.
 */
void browser_show(const char *path);
