/* Turns of host threads in the emulator: one of them runs at a time, in the order in which they asked. */
#ifndef TESTS_EMULATOR_TURN_H
#define TESTS_EMULATOR_TURN_H

void turn_take(void);
void turn_end(void);
/* Ends this thread's turn and takes the next one, behind all who wait for theirs. */
void turn_pass(void);

#endif
