/* The same help for other readers: manual pages, and the words that a shell completes. Hidden from `gradsum help`,
 * because make install and the shells ask for it:
 *
 *     gradsum help --man [COMMAND]      a page for man, in roff
 *     gradsum help --words [COMMAND]    the commands, or the options of one: word, tab, what it takes, tab, what it is
 */
#pragma once

#include "cli/cli.h"

/* argv[0] is "--man" or "--words", argv[1] a command's name or nothing. `commands` end with a NULL name. */
int gs_manual(int argc, char **argv, const gs_command *commands);

/* The command has another form, with a table of its own: completion has its options, too. */
void gs_words_also(const gs_option *(*form)(void));
