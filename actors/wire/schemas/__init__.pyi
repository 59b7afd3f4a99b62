# Made from the schemas by "make schemas".
