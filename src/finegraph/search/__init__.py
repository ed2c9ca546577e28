"""Search by image: an index folder of embeddings, and questions to it."""
