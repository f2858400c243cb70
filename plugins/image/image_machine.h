/* Whether this machine runs the programs of an image. */
#ifndef IMAGE_MACHINE_H
#define IMAGE_MACHINE_H

/* What programs of this machine are called: "linux/amd64". */
extern const char image_machine_name[];

#define IMAGE_RUNS_NEVER    0 /* other than linux: nothing helps */
#define IMAGE_RUNS_NOT      1 /* an emulator would help */
#define IMAGE_RUNS_EMULATED 2 /* there is one, in binfmt_misc with the flag F */
#define IMAGE_RUNS          3
/* Of an image for `platform`, "linux/arm64/v8". */
int image_machine_runs(const char *platform);

#endif
