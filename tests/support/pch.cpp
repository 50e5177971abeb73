// Only carries the precompiled header that the test programs reuse.
int main() {
  return 0;
}
