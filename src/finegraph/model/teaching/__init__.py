"""Teaching a fitted classifier by example: lessons, where they are kept, and the head that follows from them."""
