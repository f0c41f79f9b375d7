"""Jobs of streams that tell each number which is greater than all before it."""
