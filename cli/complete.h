/* Completion for the shells: they call `stele --complete WORD...` with the words of the line behind "stele". */
#ifndef STELE_CLI_COMPLETE_H
#define STELE_CLI_COMPLETE_H

/** Prints a candidate for the last word a line: word, tab, what it is. A line with a lone tab asks for file names. */
void stele_complete(int count, char **words);

#endif
