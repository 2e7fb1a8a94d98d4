/* An object without anything in it. */
typedef int nothing;
